"""Says in the user's words where in a variable an object is: `cfg.log.handle`, or a global that a function uses."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

_CONTAINERS = (dict, list, tuple, set, frozenset)
_MODULE_PARTS = ("._modules[", "._parameters[", "._buffers[")
"""Where a torch module keeps what it shows as attributes."""
_MOST_CHARACTERS = 40


@dataclass(frozen=True)
class Place:
    """Where an object is: an expression, the variable of the notebook that it starts from, the functions on the way.

    `root`: the variable where the search began. `is_inside`: the object is somewhere in what the expression means.
    """

    expression: str
    variable: str
    root: str
    users: tuple[str, ...] = ()
    is_inside: bool = False


def locate(name: str, trail: Sequence[Any]) -> Place:
    """The place of the last object of a trail of a pickler, whose first is the value of the variable `name`."""
    walk = _Walk(name, trail[0])
    for depth, child in enumerate(trail):
        if depth:
            walk.go(child)
        if (step := _step_in_table(child, trail[-1])) is not None:
            return replace(walk.place, expression=walk.place.expression + step)
    return replace(walk.place, is_inside=not walk.is_named)


class _Walk:
    """Follows a pickler from object to object; between them stand tuples and dicts that only the pickle has."""

    def __init__(self, name: str, value: Any) -> None:
        self.place = Place(name, name, name)
        self.is_named = True
        self._owner = value
        """The last object that is the user's."""
        self._is_lost = False
        """Whether the way led through something that an expression can't name."""
        self._parts: list[Any] = []
        """What has been taken of it on the way to the next one."""

    def go(self, child: Any) -> None:
        place = self._place_of(child)
        if place is not None and not self._is_lost:
            self.place = place
        self.is_named = place is not None and not self._is_lost
        if place is None and isinstance(child, _CONTAINERS):
            self._parts.append(child)
            return
        self._is_lost = self._is_lost or (place is None and not isinstance(child, types.CellType))
        self._owner, self._parts = child, []

    def _place_of(self, child: Any) -> Place | None:
        """Where a child is, or None when it is nothing that the user knows."""
        owner, here = self._owner, self.place
        if isinstance(owner, types.FunctionType):
            return self._in_function(owner, child)
        if isinstance(owner, types.CellType):
            return here if self._parts else None
        if isinstance(child, type):
            self._is_lost = False
            return replace(here, expression=child.__qualname__)
        for step, value in _members(owner):
            if value is child:
                return replace(here, expression=_short(here.expression + step))
        key = _key_of(self._parts[-1], child) if self._parts else None
        if isinstance(key, str) and not isinstance(child, _CONTAINERS):
            return replace(here, expression=f"{here.expression}.{key}")
        return None

    def _in_function(self, function: types.FunctionType, child: Any) -> Place | None:
        here, parts = self.place, self._parts
        if isinstance(child, types.CellType):
            index = next(i for i, cell in enumerate(function.__closure__ or ()) if cell is child)
            return replace(here, expression=f"{here.expression}'s variable {function.__code__.co_freevars[index]}")
        if len(parts) < 2 or isinstance(parts[0], tuple):
            return None
        section, key = _key_of(parts[0], parts[1]), _key_of(parts[-1], child)
        if section == "globals" and len(parts) == 2:
            self._is_lost = False
            return replace(here, expression=key, variable=key, users=(*here.users, function.__qualname__))
        if section == "attributes" and len(parts) == 2:
            return replace(here, expression=f"{here.expression}.{key}")
        if section == "fields" and len(parts) > 2:
            what = "annotation" if _key_of(parts[1], parts[2]) == "__annotations__" else "default value"
            return replace(here, expression=f"{here.expression}'s {what}")
        return None


def _members(owner: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, with how to write it behind the object's name."""
    if isinstance(owner, Mapping):
        yield from ((f"[{_shown(key)}]", value) for key, value in owner.items())
        yield from ((f" (a key: {_shown(key)})", key) for key in owner)
    elif isinstance(owner, list | tuple):
        yield from ((f"[{index}]", value) for index, value in enumerate(owner))
    elif isinstance(owner, set | frozenset):
        yield from ((" (an element)", value) for value in owner)
    yield from ((f".{name}", value) for name, value in getattr(owner, "__dict__", {}).items())
    for kind in type(owner).__mro__:
        slots = vars(kind).get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        yield from ((f".{name}", getattr(owner, name)) for name in names if hasattr(owner, name))
    if isinstance(owner, functools.partial):
        yield from ((f".args[{index}]", value) for index, value in enumerate(owner.args))
    if isinstance(owner, types.MethodType | types.BuiltinMethodType | types.MethodWrapperType):
        yield ".__self__", owner.__self__


def _step_in_table(table: Any, wanted: Any) -> str | None:
    """Where in a pandas frame or series of objects something is."""
    if type(table).__module__.partition(".")[0] != "pandas":
        return None
    columns = table.items() if type(table).__name__ == "DataFrame" else [(None, table)]
    for column, values in columns if type(table).__name__ in ("DataFrame", "Series") else ():
        if str(values.dtype) == "object":
            for index, value in values.items():
                if value is wanted:
                    return f"[{_shown(index)}]" if column is None else f"[{_shown(column)}][{_shown(index)}]"
    return None


def _key_of(container: Any, child: Any) -> Any:
    if isinstance(container, dict):
        return next((key for key, value in container.items() if value is child), None)
    return None


def _shown(key: object) -> str:
    text = repr(key) if isinstance(key, str | int | float | bool | None) else f"a {type(key).__name__}"
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"


def _short(expression: str) -> str:
    """A part of a torch module as people write it: `net.head`, not `net._modules['head']`."""
    for part in _MODULE_PARTS:
        before, found, key = expression.rpartition(part)
        if found and key.endswith("']") and key[1:-2].isidentifier():
            return f"{before}.{key[1:-2]}"
    return expression
