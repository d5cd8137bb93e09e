"""How modules travel: by name, so that workers import them; or with their file, or their variables."""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jtrain.capture import rebuild

if TYPE_CHECKING:
    from jtrain.capture.reducer import Reducer

_NOT_STATE = frozenset({"__builtins__", "__loader__", "__spec__", "__cached__"})


def reduce_module(reducer: Reducer, module: types.ModuleType) -> Any:
    if reducer.notebook.owns(vars(module)):
        return rebuild.main_module, ()
    name = module.__name__
    if is_importable(module):
        reducer.packages[name] = None
        return importlib.import_module, (name,)
    if has_file(module):
        return rebuild.load_module, (name, os.path.abspath(str(module.__file__)))
    variables = {key: value for key, value in vars(module).items() if key not in _NOT_STATE}
    is_registered = sys.modules.get(name) is module
    return rebuild.make_module, (name, module.__doc__, is_registered), variables, None, None, rebuild.fill_module


def has_file(module: types.ModuleType) -> bool:
    """Whether a module's source is in a file."""
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and file.endswith(".py") and os.path.isfile(file)


_found: set[str] = set()


def is_importable(module: types.ModuleType) -> bool:
    """Whether another process can import a module by its name."""
    top = module.__name__.partition(".")[0]
    if sys.modules.get(module.__name__) is not module and getattr(module, "__spec__", None) is None:
        return False
    if top in sys.stdlib_module_names:
        return True
    if top not in _found and _finds(top):
        _found.add(top)
    return top in _found


def _finds(name: str) -> bool:
    """Whether one of the import system's finders knows a module, without importing it."""
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        if find is not None and find(name, None, None) is not None:
            return True
    return False


def used_submodules(packages: Iterable[str], names: Iterable[str]) -> list[str]:
    """Modules below `packages` that the kernel has imported and that code with these attribute names reaches.

    `import a.b` binds only `a`: without this a worker would have `a`, but not `a.b`.
    """
    names = set(names)
    found: list[str] = []
    waiting = list(packages)
    while waiting:
        package = waiting.pop()
        below = [f"{package}.{name}" for name in names if f"{package}.{name}" in sys.modules]
        reached = [name for name in below if name not in found and _is_reached(name)]
        found += reached
        waiting += reached
    return sorted(found)


def _is_reached(name: str) -> bool:
    """Whether it is a module of its own, and an attribute of the package above it."""
    parent, _, last = name.rpartition(".")
    module, package = sys.modules[name], sys.modules.get(parent)
    return isinstance(module, types.ModuleType) and package is not None and vars(package).get(last) is module
