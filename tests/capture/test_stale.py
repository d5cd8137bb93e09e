"""Local modules that were edited since this process imported them are found; nothing else is."""

from __future__ import annotations

import importlib
import os
import py_compile
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jtrain.capture import stale
from jtrain.capture.pack import pack
from jtrain.capture.stale import ModuleMemory, StaleModule

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a module's file into a folder that is imported from, with a time of its own."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    before = set(sys.modules)

    def write(name: str, text: str = "x = 1\n", *, time: int = 1_700_000_000) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        os.utime(file, (time, time))
        importlib.invalidate_caches()
        return file

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_an_edited_module_is_found_and_an_untouched_one_isnt(write: Write) -> None:
    file = write("edited_helper.py")
    write("calm_helper.py")
    importlib.import_module("edited_helper")
    importlib.import_module("calm_helper")
    memory = ModuleMemory()
    memory.remember()
    assert memory.stale() == []
    write("edited_helper.py", time=1_700_000_009)
    assert memory.stale() == [StaleModule("edited_helper", str(file))]
    assert memory.stale(["calm_helper", "no_such_module"]) == []


def test_a_change_within_the_same_second_counts_and_so_does_size_alone(write: Write) -> None:
    file = write("quick_helper.py")
    importlib.import_module("quick_helper")
    memory = ModuleMemory()
    memory.remember()
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1_000_000))
    assert [module.name for module in memory.stale()] == ["quick_helper"]
    write("quick_helper.py", "x = 22\n")
    assert [module.name for module in memory.stale()] == ["quick_helper"]


def test_a_module_edited_before_it_was_noted_is_found_by_its_compiled_file(write: Write) -> None:
    write("early_helper.py")
    importlib.import_module("early_helper")
    write("early_helper.py", "x = 2\n", time=1_700_000_009)
    assert [module.name for module in ModuleMemory().stale()] == ["early_helper"]


def test_modules_in_packages_are_found_by_their_whole_name(write: Write) -> None:
    write("some_package/__init__.py")
    write("some_package/part.py")
    importlib.import_module("some_package.part")
    memory = ModuleMemory()
    memory.remember()
    write("some_package/part.py", time=1_700_000_009)
    assert [module.name for module in memory.stale()] == ["some_package.part"]


@pytest.mark.parametrize("is_noted_between", [True, False])
def test_a_reloaded_module_is_fresh_again(write: Write, is_noted_between: bool) -> None:
    write("again_helper.py")
    module = importlib.import_module("again_helper")
    memory = ModuleMemory()
    memory.remember()
    write("again_helper.py", "x = 2\n", time=1_700_000_009)
    importlib.reload(module)
    if is_noted_between:
        memory.remember()
    assert memory.stale() == []
    write("again_helper.py", "x = 3\n", time=1_700_000_019)
    assert [module.name for module in memory.stale()] == ["again_helper"]


def test_a_module_that_was_thrown_out_and_imported_again_is_fresh(write: Write) -> None:
    write("thrown_helper.py")
    importlib.import_module("thrown_helper")
    memory = ModuleMemory()
    memory.remember()
    write("thrown_helper.py", "x = 2\n", time=1_700_000_009)
    del sys.modules["thrown_helper"]
    assert memory.stale() == []
    importlib.import_module("thrown_helper")
    assert memory.stale() == []
    write("thrown_helper.py", "x = 3\n", time=1_700_000_019)
    assert [module.name for module in memory.stale()] == ["thrown_helper"]


_WITH_AUTORELOAD = """
import os, pathlib
from IPython.core.interactiveshell import InteractiveShell
from jtrain.capture.stale import remember_modules, stale_modules

shell = InteractiveShell.instance(colors="nocolor")
shell.events.register("post_run_cell", lambda result: remember_modules())
helper = pathlib.Path("auto_helper.py")

def write(text, time):
    helper.write_text(text)
    os.utime(helper, (time, time))

def cell(text):
    shell.run_cell(text).raise_error()
    return [module.name for module in stale_modules()]

write("def f(): return 1", 1_700_000_000)
cell("import auto_helper")
write("def f(): return 2", 1_700_000_009)
print(cell("%load_ext autoreload"), cell("%autoreload 2"), cell("assert auto_helper.f() == 1"))
write("def f(): return 3", 1_700_000_019)
print(stale_modules() != [], cell("assert auto_helper.f() == 3"))
write("def f(: return 4", 1_700_000_029)
print(cell("assert auto_helper.f() == 3"))
write("def f(): return 5", 1_700_000_039)
print(cell("assert auto_helper.f() == 5"))
"""


def test_what_autoreload_brings_up_to_date_is_fresh(tmp_path: Path) -> None:
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _WITH_AUTORELOAD]
    told = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["['auto_helper'] ['auto_helper'] ['auto_helper']", "True []", "['auto_helper']", "[]"]


def test_a_removed_file_is_told_as_gone(write: Write) -> None:
    file = write("gone_helper.py")
    importlib.import_module("gone_helper")
    memory = ModuleMemory()
    memory.remember()
    file.unlink()
    assert memory.stale() == [StaleModule("gone_helper", str(file), is_gone=True)]


def test_installed_modules_are_none_of_our_business(write: Write) -> None:
    file = write(".venv/lib/python3/site-packages/installed_helper.py")
    sys.path.insert(0, str(file.parent))
    try:
        importlib.import_module("installed_helper")
    finally:
        sys.path.remove(str(file.parent))
    memory = ModuleMemory()
    memory.remember()
    write(".venv/lib/python3/site-packages/installed_helper.py", time=1_700_000_009)
    assert memory.stale() == []


def test_only_files_below_the_given_folders_are_local(write: Write) -> None:
    write("inside_helper.py")
    importlib.import_module("inside_helper")
    memory = ModuleMemory()
    memory.remember([Path("elsewhere")])
    write("inside_helper.py", time=1_700_000_009)
    assert memory.stale() == []


@pytest.mark.parametrize("damage", [b"", b"rubbish", None])
def test_a_damaged_or_missing_compiled_file_is_no_evidence(write: Write, damage: bytes | None) -> None:
    write("damaged_helper.py")
    cached = Path(importlib.import_module("damaged_helper").__cached__)
    write("damaged_helper.py", time=1_700_000_009)
    cached.unlink() if damage is None else cached.write_bytes(damage)
    assert ModuleMemory().stale() == []


def test_a_compiled_file_that_goes_by_hash_is_no_evidence(write: Write) -> None:
    file = write("hashed_helper.py")
    py_compile.compile(str(file), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    importlib.import_module("hashed_helper")
    write("hashed_helper.py", "x = 2\n", time=1_700_000_009)
    assert ModuleMemory().stale() == []


class _Sulky:
    """Stands in `sys.modules` and hates to be asked."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)


class _Slotted:
    __slots__ = ()


def test_whatever_stands_among_the_modules_nothing_is_raised(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "open_package").mkdir()
    importlib.import_module("open_package")
    odd = types.ModuleType("odd_module")
    odd.__file__ = "\0"
    handmade = types.ModuleType("handmade_module")
    handmade.__file__ = str(write("handmade.py"))
    strange = {"odd_module": odd, "sulky": _Sulky(), "slotted": _Slotted(), "nothing": None, "number": 3}
    for name, module in {**strange, "handmade_module": handmade}.items():
        monkeypatch.setitem(sys.modules, name, module)
    memory = ModuleMemory()
    memory.remember()
    assert memory.stale() == []
    write("handmade.py", time=1_700_000_009)
    assert [module.name for module in memory.stale()] == ["handmade_module"]


def test_the_warning_names_the_file_and_what_to_do(write: Write) -> None:
    write("warned_helper.py")
    write("lost_helper.py")
    importlib.import_module("warned_helper")
    importlib.import_module("lost_helper")
    stale.remember_modules()
    file = write("warned_helper.py", time=1_700_000_009)
    file.with_name("lost_helper.py").unlink()
    assert {module.name for module in stale.stale_modules()} >= {"warned_helper", "lost_helper"}
    told = "\n".join(stale.warnings())
    assert "warned_helper.py was edited after this kernel imported warned_helper" in told
    assert "importlib.reload(warned_helper)" in told
    assert "lost_helper.py is gone" in told


def test_only_modules_that_the_program_may_use_are_warned_of(write: Write, tmp_path: Path) -> None:
    names = ["by_text", "by_value", "by_module", "by_package.part", "unused"]
    write("by_package/__init__.py")
    for name in names:
        write(f"{name.replace('.', '/')}.py", "def f(): pass\n" if name != "by_text" else "import by_module\n")
    modules = {name: importlib.import_module(name) for name in names}
    stale.remember_modules()
    for name in names:
        write(f"{name.replace('.', '/')}.py", "def f(): pass  # edited\n", time=1_700_000_009)
    write("by_text.py", "import by_module\nx = 2\n", time=1_700_000_009)
    variables = {"__name__": "__main__", "f": modules["by_value"].f, "by_package": sys.modules["by_package"]}
    pack(variables, {"f": 1, "by_package": 1}, tmp_path / "payload")

    def warned(program: str) -> set[str]:
        told = "\n".join(stale.warnings(program, tmp_path / "payload"))
        return {name for name in names if f"imported {name}:" in told}

    assert warned("f(by_package.part)") == {"by_value", "by_package.part"}
    assert warned("import by_text") == {"by_value", "by_text", "by_module"}
    assert not stale.warnings("print(1)", tmp_path / "no payload")
