"""What belongs to the notebook itself, as opposed to modules that workers import."""

from __future__ import annotations

import builtins
import dis
import functools
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_KERNELS_NAMES = re.compile(
    r"In|Out|_+|_i{1,3}|_i?\d+|_[iod]h|exit|quit|open|display|get_ipython"
    r"|__(name|doc|package|loader|spec|builtins?|annotations|file|cached|session)__"
)
"""Names that a kernel puts into the notebook's namespace."""
_REPLACEABLE = frozenset({"exit", "quit", "open", "display", "get_ipython"})
"""Those among them that a user may have given another meaning."""
_READS = frozenset({"LOAD_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})


@dataclass
class Notebook:
    """The notebook's namespace, and what in a worker isn't taken from it.

    `provided`: names that a worker has by itself, such as `run`.
    """

    namespace: Mapping[str, Any]
    provided: frozenset[str] = frozenset()
    modules: frozenset[str] = field(init=False)
    """Names by which classes and functions of the notebook call their module."""

    def __post_init__(self) -> None:
        self._own = (self.namespace, vars(sys.modules["__main__"]))
        self.modules = frozenset({"__main__", str(self.namespace.get("__name__", "__main__"))})

    def owns(self, namespace: Mapping[str, Any]) -> bool:
        """Whether these are the globals of the notebook's functions."""
        return any(namespace is own for own in self._own)

    def has(self, name: str) -> bool:
        """Whether the user has a variable of that name, which may travel."""
        return name not in self.provided and name in self.namespace and not is_kernels(name, self.namespace[name])

    def variable_of(self, definition: Any) -> str | None:
        """The variable by which the notebook reaches a function or class under its own name; None when it doesn't."""
        name, *rest = definition.__qualname__.split(".")
        if definition.__module__ not in self.modules or not self.has(name):
            return None
        try:
            found = functools.reduce(getattr, rest, self.namespace[name])
        except AttributeError:
            return None
        return name if found is definition else None


def is_kernels(name: str, value: object) -> bool:
    """Whether a variable is there because of the kernel, not because of the user."""
    if not _KERNELS_NAMES.fullmatch(name):
        return False
    return name not in _REPLACEABLE or _is_ipythons(value) or value is getattr(builtins, name, None)


def _is_ipythons(value: object) -> bool:
    # A wrapper, such as IPython's `open`, bears the module of what it wraps.
    defined_in = getattr(value, "__globals__", {}).get("__name__")
    names = (getattr(value, "__module__", None), type(value).__module__, defined_in)
    return any(str(name).partition(".")[0] in ("IPython", "ipykernel") for name in names)


# What functions use -------------------------------------------------------------------------------------------------

_names_of_code: dict[types.CodeType, tuple[str, ...]] = {}


def global_names(code: types.CodeType) -> tuple[str, ...]:
    """The global names that a function's code reads, also within functions and classes that it defines."""
    found = _names_of_code.get(code)
    if found is None:
        names = dict.fromkeys(_read_names(code))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                names.update(dict.fromkeys(global_names(constant)))
        found = tuple(names)
        if len(_names_of_code) > _MOST_CODES:
            _names_of_code.clear()
        _names_of_code[code] = found
    return found


_MOST_CODES = 10_000


def _read_names(code: types.CodeType) -> Iterator[str]:
    stored: set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname == "STORE_NAME":
            stored.add(instruction.argval)  # a class body's own name
        elif instruction.opname in _READS and instruction.argval not in stored:
            yield instruction.argval


def functions_of(value: object) -> list[types.FunctionType]:
    """The functions in a function, class, or instance, as far as it is seen without pickling.

    Only its type is asked: attributes of a user's object, `__class__` among them, may run code that raises.
    """
    kind = type(value)
    if issubclass(kind, types.FunctionType):
        return [value]  # type: ignore[list-item]
    if issubclass(kind, types.MethodType):
        return functions_of(value.__func__)  # type: ignore[attr-defined]
    if issubclass(kind, functools._lru_cache_wrapper):
        return functions_of(value.__wrapped__)  # type: ignore[attr-defined]
    if issubclass(kind, type):
        kind = value  # type: ignore[assignment]
    bases = [base for base in kind.__mro__ if base.__module__ == "__main__"]
    return [function for base in bases for member in vars(base).values() for function in _unwrapped(member)]


def _unwrapped(member: object) -> Iterable[types.FunctionType]:
    kind = type(member)
    parts: tuple[object, ...] = (member,)
    if issubclass(kind, staticmethod | classmethod):
        parts = (member.__func__,)  # type: ignore[attr-defined]
    elif issubclass(kind, property):
        parts = (member.fget, member.fset, member.fdel)  # type: ignore[attr-defined]
    elif issubclass(kind, functools.cached_property):
        parts = (member.func,)  # type: ignore[attr-defined]
    return [part for part in parts if type(part) is types.FunctionType]


def with_dependencies(notebook: Notebook, names: Iterable[str]) -> dict[str, str]:
    """The variables `names` and those that they need, each behind what it needs, with the variable that needs it."""
    order: dict[str, str] = {}
    needed_by: dict[str, str] = {}
    waiting = [(name, False) for name in reversed([name for name in names if notebook.has(name)])]
    needed_by.update((name, "") for name, _ in waiting)
    opened: set[str] = set()
    while waiting:
        name, is_complete = waiting.pop()
        if is_complete:
            order.setdefault(name, needed_by[name])
        elif name not in opened:
            opened.add(name)
            waiting.append((name, True))
            for other in _needs(notebook, name):
                needed_by.setdefault(other, name)
                waiting.append((other, False))
    return order


def _needs(notebook: Notebook, name: str) -> list[str]:
    value = notebook.namespace[name]
    kind = notebook.variable_of(type(value))
    if kind not in (None, name):
        return [kind]
    names: dict[str, None] = {}
    for function in functions_of(value):
        if notebook.owns(function.__globals__):
            names.update(dict.fromkeys(global_names(function.__code__)))
    return [other for other in names if other != name and notebook.has(other)]
