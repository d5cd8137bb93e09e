"""What can't travel to another process: found, named, and said what to do instead."""

from __future__ import annotations

import threading
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_MOST_OBJECTS = 100_000

_ADVICE = {
    "file": "open it inside the cell",
    "lock": "make it inside the cell",
    "generator": "capture a list, or call the generator function inside the cell",
    "coroutine": "await it before, and capture its result",
    "connection": "connect inside the cell",
    "iterator": "capture the DataLoader or the list itself, and iterate inside the cell",
    "accelerator": "make the Accelerator inside the cell: it has to know the workers",
    "process": "start it inside the cell",
    "": "make it inside the cell, or capture only what is needed of it",
}


@dataclass(frozen=True)
class Refusal:
    """A variable that can't travel, and where in it the reason is."""

    name: str
    line: int
    path: str
    type: str
    advice: str

    def __str__(self) -> str:
        where = f" (used in line {self.line})" if self.line else ""
        inside = "" if self.path == self.name else f": {self.path}"
        return f"{self.name}{where}{inside} is a {self.type}; {self.advice}"


def find_refusal(name: str, value: object, line: int) -> Refusal | None:
    """A refusal for what would pickle but make no sense in a worker."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if kind == "accelerate.accelerator.Accelerator":
        return Refusal(name, line, name, "Accelerator", _ADVICE["accelerator"])
    if name in ("In", "Out", "get_ipython"):
        return Refusal(name, line, name, "part of IPython", "the workers have no IPython; capture the value itself")
    return None


def refuse(name: str, value: object, line: int, last: object, error: Exception) -> Refusal:
    """The refusal of a variable whose pickling failed at the object `last`."""
    path = find_path(name, value, last)
    if path is None:
        path, last = name, value
    advice = _ADVICE[_kind(last)]
    if not _kind(last):
        advice = f"{advice} ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'})"
    return Refusal(name, line, path, _type_name(last), advice)


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _kind(value: object) -> str:
    module, name = type(value).__module__, type(value).__name__
    if module in ("_io", "io", "tempfile"):
        return "file"
    if module in ("_thread", "threading", "multiprocessing.synchronize") or isinstance(value, threading.Thread):
        return "lock"
    if isinstance(value, (types.GeneratorType, types.AsyncGeneratorType)):
        return "generator"
    if isinstance(value, types.CoroutineType):
        return "coroutine"
    if module in ("sqlite3", "_socket", "socket") or "onnection" in name or "ursor" in name:
        return "connection"
    if "DataLoaderIter" in name or name.endswith("_iterator"):
        return "iterator"
    return "process" if name == "Popen" else ""


def find_path(name: str, value: object, wanted: object) -> str | None:
    """How to get from a variable to an object in it, as Python would write it; None when it isn't found."""
    queue: deque[tuple[str, object]] = deque([(name, value)])
    seen: set[int] = set()
    while queue and len(seen) < _MOST_OBJECTS:
        path, obj = queue.popleft()
        if obj is wanted:
            return path
        if id(obj) in seen:
            continue
        seen.add(id(obj))
        queue.extend(_children(path, obj))
    return None


def _children(path: str, obj: Any) -> Iterator[tuple[str, object]]:
    if isinstance(obj, dict):
        yield from ((f"{path}[{key!r}]", item) for key, item in obj.items())
    elif isinstance(obj, (list, tuple, deque)):
        yield from ((f"{path}[{index}]", item) for index, item in enumerate(obj))
    elif isinstance(obj, (set, frozenset)):
        yield from ((f"{path}{{…}}", item) for item in obj)
    elif isinstance(obj, types.FunctionType):
        yield from _function_parts(path, obj)
    elif isinstance(obj, types.MethodType):
        yield f"{path}.__self__", obj.__self__
        yield f"{path}.__func__", obj.__func__
    if isinstance(obj, type) and obj.__module__ != "__main__":
        return
    attributes = getattr(obj, "__dict__", None)
    if isinstance(attributes, (dict, types.MappingProxyType)) and not isinstance(obj, types.ModuleType):
        yield from ((f"{path}.{key}", item) for key, item in list(attributes.items()))
    for slot in getattr(type(obj), "__slots__", ()):
        if isinstance(slot, str) and hasattr(obj, slot):
            yield f"{path}.{slot}", getattr(obj, slot)


def _function_parts(path: str, function: types.FunctionType) -> Iterator[tuple[str, object]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f"closure of {path}: {name}", cell.cell_contents
        except ValueError:
            continue  # an empty cell
    for index, value in enumerate(function.__defaults__ or ()):
        yield f"default {index + 1} of {path}", value
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield f"{name} (used by {path})", function.__globals__[name]
