"""How to get from a variable to an object inside it, as Python would write it."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

_MOST_OBJECTS = 1_000_000
_ATOMS = (int, float, complex, str, bytes, bytearray, bool, type(None))

Step = tuple[str, object]
"""How a child is written, with `{}` for its parent, and the child. Braces in it are doubled."""


def find_path(name: str, value: object, wanted: object) -> str | None:
    """The shortest way from the variable `name` to the object `wanted` in it; None when it isn't found."""
    if value is wanted:
        return name
    queue: deque[tuple[object, int]] = deque([(value, -1)])
    # How each object was come to: the index of its parent, and the step from there.
    trail: list[tuple[int, str]] = []
    seen: set[int] = {id(value)}
    kept: list[object] = []
    while queue and len(trail) < _MOST_OBJECTS:
        obj, at = queue.popleft()
        for step, child in _children(obj):
            if isinstance(child, _ATOMS) or id(child) in seen:
                continue
            seen.add(id(child))
            kept.append(child)  # children may be made on the way, and their ids must stay theirs
            trail.append((at, step))
            if child is wanted:
                return _written(name, trail)
            queue.append((child, len(trail) - 1))
    return None


def _written(name: str, trail: list[tuple[int, str]]) -> str:
    steps = []
    at = len(trail) - 1
    while at >= 0:
        at, step = trail[at]
        steps.append(step)
    path = name
    for step in reversed(steps):
        path = step.format(path)
    return path


def _children(obj: Any) -> Iterator[Step]:
    try:
        yield from _parts(obj)
    except Exception:  # noqa: BLE001 - objects of users may do anything when looked at; what was found is enough
        return


def _parts(obj: Any) -> Iterator[Step]:
    if isinstance(obj, Mapping) and isinstance(obj, dict | types.MappingProxyType):
        yield from _items(obj)
    elif isinstance(obj, list | tuple | deque):
        fields = getattr(obj, "_fields", None)
        for index, item in enumerate(obj):
            yield (f"{{}}.{fields[index]}" if fields else f"{{}}[{index}]"), item
    elif isinstance(obj, set | frozenset):
        yield from (("an item of {}", item) for item in obj)
    elif isinstance(obj, types.FunctionType):
        yield from _function_parts(obj)
    elif isinstance(obj, types.MethodType):
        yield from (("{}.__self__", obj.__self__), ("{}.__func__", obj.__func__))
    elif isinstance(obj, property):
        yield from (("{}", function) for function in (obj.fget, obj.fset, obj.fdel))
    elif isinstance(obj, staticmethod | classmethod):
        yield "{}", obj.__func__
    elif isinstance(obj, types.CellType):
        yield "{}", obj.cell_contents
    elif type(obj).__module__.partition(".")[0] in ("pandas", "numpy", "functools", "collections"):
        yield from _library_parts(obj)
    yield from _attributes(obj)
    if type(obj).__module__ == "__main__" and not isinstance(obj, type):
        yield f"class {type(obj).__name__.replace('{', '{{')}", type(obj)


def _items(mapping: Any) -> Iterator[Step]:
    for key, item in list(mapping.items()):
        if not isinstance(key, _ATOMS):
            yield "a key of {}", key
        yield f"{{}}[{_short(key)}]", item


def _short(key: object) -> str:
    text = repr(key) if isinstance(key, _ATOMS) or isinstance(key, tuple) else f"<{type(key).__name__}>"
    text = text if len(text) <= 60 else text[:59] + "…"
    return text.replace("{", "{{").replace("}", "}}")


def _attributes(obj: Any) -> Iterator[Step]:
    if isinstance(obj, types.ModuleType) or (isinstance(obj, type) and obj.__module__ != "__main__"):
        return
    for name, item in list((getattr(obj, "__dict__", None) or {}).items()):
        yield f"{{}}.{name}", item
    for base in type(obj).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if hasattr(obj, slot):
                yield f"{{}}.{slot}", getattr(obj, slot)


def _library_parts(obj: Any) -> Iterator[Step]:
    kind = type(obj).__name__
    if kind == "DataFrame":
        for column in obj.columns[obj.dtypes == object]:
            for index, item in obj[column].items():
                yield f"{{}}[{_short(column)}][{_short(index)}]", item
    elif kind in ("Series", "Index") and obj.dtype == object:
        for index, item in obj.to_dict().items() if kind == "Series" else enumerate(obj):
            yield f"{{}}[{_short(index)}]", item
    elif kind == "ndarray" and obj.dtype.hasobject:
        for index, item in enumerate(obj.ravel().tolist()):
            yield f"{{}}.flat[{index}]", item
    elif kind == "partial":
        yield from (("{}.func", obj.func), ("{}.args", obj.args), ("{}.keywords", obj.keywords))
    elif kind == "defaultdict":
        yield "{}.default_factory", obj.default_factory


def _function_parts(function: types.FunctionType) -> Iterator[Step]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f"closure of {{}}: {name}", cell.cell_contents
        except ValueError:
            continue  # an empty cell
    for index, value in enumerate(function.__defaults__ or ()):
        yield f"default {index + 1} of {{}}", value
    for name, value in (function.__kwdefaults__ or {}).items():
        yield f"default {name} of {{}}", value
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield f"{name}, which {{}} uses,", function.__globals__[name]


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)
