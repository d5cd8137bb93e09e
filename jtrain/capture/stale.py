"""Local modules that were edited after the kernel imported them.

Workers import such a module as its file is now; the kernel keeps what it imported. That is worth a sentence, and this
module knows when. After every cell `remember_modules` notes the modification time and the size of the files of the
modules that are new. Where the import happened before (or the file changed within the cell), the header of the
module's `.pyc` file tells what was compiled. `importlib.reload`, and `%autoreload` through it, gives a module a new
`__spec__`: then the file is noted anew. `%autoreload` also puts changed functions into a module without a reload; the
times that it keeps tell.
"""

from __future__ import annotations

import os
import struct
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from jtrain.capture.reached import reached_modules

_INSTALLED = frozenset({"site-packages", "dist-packages"})
_MAIN_MODULES = frozenset({"__main__", "__mp_main__"})
_PYC_HEADER = struct.Struct("<4sIII")
"""Magic number, flags, source's time in seconds and size, both modulo 2**32 (PEP 552)."""
_UINT32 = 0xFFFFFFFF


@dataclass(frozen=True)
class StaleModule:
    """A module whose file isn't what the kernel imported."""

    name: str
    file: str
    is_gone: bool = False
    """The file was removed or renamed."""


@dataclass(frozen=True)
class _Stamp:
    """A file's state: `time_ns` is None where only whole seconds are known."""

    time_s: int
    size: int
    time_ns: int | None = None

    def fits(self, now: _Stamp) -> bool:
        if self.time_ns is None or now.time_ns is None:
            return (self.time_s, self.size) == (now.time_s, now.size)
        return (self.time_ns, self.size) == (now.time_ns, now.size)


@dataclass(frozen=True)
class _Note:
    spec: object
    file: str
    stamp: _Stamp
    autoreload_time: float | None
    """The file's time when `%autoreload` last looked after it; None before it first did."""


class ModuleMemory:
    """What was noted about the modules of one process."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._notes: dict[str, _Note] = {}

    def remember(self, roots: Sequence[Path] | None = None) -> None:
        """Note the modules that are new or reloaded; `roots`: only files below these folders are local."""
        for name in [name for name in list(sys.modules) if name not in self._seen]:
            self._seen.add(name)
            self._note(name, roots)
        for name, note in list(self._notes.items()):
            if self._attributes(name).get("__spec__") is not note.spec:
                self._note(name, roots)
            else:
                self._note_autoreload(name, note)

    def stale(self, modules: Iterable[str] | None = None) -> list[StaleModule]:
        """Those whose file changed since."""
        self.remember()
        names = self._notes if modules is None else [name for name in modules if name in self._notes]
        found = []
        for name in sorted(names):
            note = self._notes[name]
            now = _stamp(note.file)
            if now is None or not note.stamp.fits(now):
                found.append(StaleModule(name, note.file, is_gone=now is None))
        return found

    def files(self) -> dict[str, str]:
        """The files of all local modules, by the modules' names."""
        return {name: note.file for name, note in self._notes.items()}

    def _note(self, name: str, roots: Sequence[Path] | None) -> None:
        self._notes.pop(name, None)
        if name not in sys.modules:
            self._seen.discard(name)
        attributes = self._attributes(name)
        file = attributes.get("__file__")
        if not isinstance(file, str) or not _is_local(name, file, roots):
            return
        now = _stamp(file)
        if now is not None:
            compiled = _compiled_stamp(attributes.get("__cached__")) if file.endswith(".py") else None
            stamp = now if compiled is None or compiled.fits(now) else compiled
            file = os.path.abspath(file)
            self._notes[name] = _Note(attributes.get("__spec__"), file, stamp, _autoreload_time(name, file))

    def _note_autoreload(self, name: str, note: _Note) -> None:
        """`%autoreload` looks after a module: the first time it only notes the file, later it takes changes in."""
        time, now = _autoreload_time(name, note.file), _stamp(note.file)
        if time is None or now is None or time == note.autoreload_time:
            return
        stamp = note.stamp if note.autoreload_time is None else now
        self._notes[name] = replace(note, autoreload_time=time, stamp=stamp)

    def _attributes(self, name: str) -> dict[str, Any]:
        """A module's variables, without running code of its own: anything may stand in `sys.modules`."""
        try:
            found = object.__getattribute__(sys.modules.get(name), "__dict__")
        except (AttributeError, TypeError):
            return {}
        return found if isinstance(found, dict) else {}


def _is_local(name: str, file: str, roots: Sequence[Path] | None) -> bool:
    if name in _MAIN_MODULES or name.partition(".")[0] == __name__.partition(".")[0]:
        return False
    path = Path(os.path.abspath(file))
    if not _INSTALLED.isdisjoint(path.parts):
        return False
    if roots is not None:
        return any(path.is_relative_to(os.path.abspath(root)) for root in roots)
    return not any(path.is_relative_to(folder) for folder in _standard_folders())


@cache
def _standard_folders() -> list[str]:
    paths = sysconfig.get_paths()
    return [paths["stdlib"], paths["platstdlib"], os.path.dirname(os.__file__)]


def _stamp(file: str) -> _Stamp | None:
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return _Stamp(int(found.st_mtime) & _UINT32, found.st_size & _UINT32, found.st_mtime_ns)


def _compiled_stamp(cached: object) -> _Stamp | None:
    """The source that a `.pyc` file was made from; None where that says nothing about what was imported."""
    if sys.dont_write_bytecode or not isinstance(cached, str) or not os.access(os.path.dirname(cached), os.W_OK):
        return None
    try:
        with open(cached, "rb") as file:
            _, flags, time_s, size = _PYC_HEADER.unpack(file.read(_PYC_HEADER.size))
    except (OSError, ValueError, struct.error):
        return None
    return None if flags else _Stamp(time_s, size)


def _autoreload_time(name: str, file: str) -> float | None:
    """The file's time when `%autoreload` last looked after the module with success; None where it doesn't.

    IPython has no public name for it, so nothing is taken for granted.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    magics = getattr(getattr(shell, "magics_manager", None), "registry", {}).get("AutoreloadMagics")
    reloader = getattr(magics, "_reloader", None)
    times, failed = getattr(reloader, "modules_mtimes", None), getattr(reloader, "failed", None)
    if not isinstance(times, dict) or not isinstance(failed, dict):
        return None
    time = times.get(name)
    return None if failed.get(file) == time else time


_memory = ModuleMemory()


def remember_modules(roots: Sequence[Path] | None = None) -> None:
    """To be called after every cell: note the local modules that were imported or reloaded since the last call."""
    _memory.remember(roots)


def stale_modules(modules: Iterable[str] | None = None) -> list[StaleModule]:
    """The local modules (of `modules`: names; default all) whose files changed since the kernel imported them."""
    return _memory.stale(modules)


def warnings(program: str | None = None, payload: Path | None = None) -> list[str]:
    """What to tell the user about a launch: a sentence for each stale module; with `program` (a cell's text) and
    `payload` (the folder with what it captured) only for those that the program may use."""
    found = stale_modules()
    if found and program is not None and payload is not None:
        used = reached_modules(_memory.files(), program, payload)
        found = [module for module in found if module.name in used]
    return [_sentence(module) for module in found]


def _sentence(module: StaleModule) -> str:
    file = os.path.relpath(module.file) if Path(module.file).is_relative_to(os.getcwd()) else module.file
    if module.is_gone:
        return f"{file} is gone since this kernel imported {module.name}: workers that import it will fail"
    return (
        f"{file} was edited after this kernel imported {module.name}: the workers use the file as it is now, the "
        f"kernel's copy is older (importlib.reload({module.name}) or a restart brings it up to date)"
    )
