"""How functions and classes travel: by name when a worker can import them, else with their code.

cloudpickle takes classes apart; functions are done here, since theirs must see the globals of the worker's main
program, keep the file names that tracebacks show, and share closure cells.
"""

from __future__ import annotations

import enum
import functools
import marshal
import sys
import types
from typing import TYPE_CHECKING, Any

from cloudpickle import cloudpickle

from jtrain.capture import modules, rebuild
from jtrain.capture.notebook import global_names, is_kernels

if TYPE_CHECKING:
    from jtrain.capture.reducer import Reducer

_FIELDS = (
    "__qualname__",
    "__module__",
    "__doc__",
    "__defaults__",
    "__kwdefaults__",
    "__annotations__",
    "__type_params__",
)
_BASE_GLOBALS = ("__name__", "__package__", "__path__", "__file__")
"""What imports within a function look at."""


# Functions ----------------------------------------------------------------------------------------------------------


def reduce_function(reducer: Reducer, function: types.FunctionType) -> Any:
    by_name = _by_name(function)
    if by_name is not None:
        return by_name
    note_definition(reducer, function)
    code = function.__code__
    reducer.sources[code.co_filename] = None
    module_globals, used = _globals(reducer, function)
    fields = {name: getattr(function, name) for name in _FIELDS if getattr(function, name, None)}
    state = {"globals": used, "attributes": dict(vars(function)), "fields": fields}
    arguments = (code, module_globals, function.__name__, function.__closure__)
    return rebuild.make_function, arguments, state, None, None, rebuild.fill_function


def reduce_code(reducer: Reducer, code: types.CodeType) -> Any:
    return marshal.loads, (marshal.dumps(code),)


def reduce_cell(reducer: Reducer, cell: types.CellType) -> Any:
    try:
        content: tuple[Any, ...] = (cell.cell_contents,)
    except ValueError:
        content = ()  # a variable that isn't assigned yet
    return rebuild.make_cell, (), content, None, None, rebuild.fill_cell


def reduce_cached(reducer: Reducer, cached: Any) -> Any:
    """A function under `functools.lru_cache`."""
    by_name = _by_name(cached)
    if by_name is not None:
        return by_name
    note_definition(reducer, cached)
    parameters = cached.cache_parameters()
    return rebuild.make_cached, (cached.__wrapped__, parameters["maxsize"], parameters["typed"])


def reduce_cached_property(reducer: Reducer, made: Any) -> Any:
    return rebuild.make_cached_property, (made.func, made.attrname)


def _globals(reducer: Reducer, function: types.FunctionType) -> tuple[Any, dict[str, Any]]:
    """What stands for a function's globals, and those of them that have to travel with it."""
    namespace = function.__globals__
    names = global_names(function.__code__)
    reducer.used_names.update(function.__code__.co_names)
    if reducer.notebook.owns(namespace):
        return reducer.main_globals(), _used_variables(reducer, namespace, names)
    module = sys.modules.get(str(namespace.get("__name__")))
    if module is not None and vars(module) is namespace:
        return _marker(reducer, namespace, GlobalsOf(module)), {}
    base = {name: namespace[name] for name in _BASE_GLOBALS if name in namespace}
    return _marker(reducer, namespace, OwnGlobals(base)), {name: namespace[name] for name in names if name in namespace}


def _used_variables(reducer: Reducer, namespace: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    found = {}
    for name in names:
        is_there = name in namespace and not is_kernels(name, namespace[name])
        if is_there and name not in reducer.notebook.provided:
            found[name] = namespace[name]
        elif name in rebuild.STAND_INS and not is_there:
            reducer.stand_ins[name] = None
    return found


class GlobalsOf:
    """Stands for the variables of a module."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def __reduce__(self) -> Any:
        return vars, (self._module,)


class MainGlobals:
    """Stands for the variables of the main program."""

    def __reduce__(self) -> Any:
        return rebuild.main_globals, ()


class OwnGlobals:
    """Stands for globals that no module has."""

    def __init__(self, base: dict[str, Any]) -> None:
        self._base = base

    def __reduce__(self) -> Any:
        return rebuild.own_globals, (self._base,)


def _marker(reducer: Reducer, namespace: dict[str, Any], marker: object) -> object:
    """One marker for each namespace, so that functions that share one still do."""
    return reducer.markers.setdefault(id(namespace), marker)


# Classes ------------------------------------------------------------------------------------------------------------


def reduce_class(reducer: Reducer, kind: type) -> Any:
    by_name = _by_name(kind)
    if by_name is not None:
        return by_name
    reduced = cloudpickle._class_reduce(kind)
    if reduced is NotImplemented:
        reduced = cloudpickle._dynamic_class_reduce(kind)
    if len(reduced) == 2:
        return reduced  # one of Python's own, such as the type of functions
    note_definition(reducer, kind)
    maker, arguments, (members, slots), *_, setter = reduced
    if not issubclass(kind, enum.Enum):
        arguments, members = _with_options(kind, arguments, members)
        return rebuild.make_class, (maker, arguments), (members, slots), None, None, setter
    arguments, members = _with_aliases(kind, arguments, members)
    extras = {name: _own_fields(member) for name, member in kind.__members__.items()}
    return rebuild.make_class, (maker, arguments), (members, slots, extras), None, None, rebuild.fill_enum


def _with_options(kind: type, arguments: Any, members: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """What a class needs from the start: its full name, which cloudpickle forgets; slots, which it sets too late."""
    maker, name, bases, options, *rest = arguments
    options = {**options, "__qualname__": kind.__qualname__}
    if issubclass(kind, tuple) and "_fields" in vars(kind):
        # `typing.NamedTuple` makes classes of its own; this one is made already.
        bases = kind.__bases__
        options["__orig_bases__"] = members.get("__orig_bases__", bases)
    if "__slots__" in vars(kind):
        options["__slots__"] = vars(kind)["__slots__"]
        members = {key: value for key, value in members.items() if key != "__slots__"}
    return (maker, name, bases, options, *rest), members


def _with_aliases(kind: type[enum.Enum], arguments: Any, members: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """All names of an enum, also second ones of a member, and combinations of flags."""
    values = {name: member.value for name, member in kind.__members__.items()}
    members = {key: value for key, value in members.items() if key not in kind.__members__}
    return (*arguments[:3], values, *arguments[4:]), members


def reduce_type_name(reducer: Reducer, made: Any) -> Any:
    """A `NewType` or the like, which pickle only knows by name."""
    if made.__module__ not in reducer.notebook.modules:
        return NotImplemented
    arguments = (made.__name__, *((made.__supertype__,) if hasattr(made, "__supertype__") else ()))
    return rebuild.make_type_name, (type(made), made.__module__, arguments)


def _own_fields(member: enum.Enum) -> dict[str, Any]:
    """What a member's `__new__` gave it."""
    return {name: value for name, value in vars(member).items() if not name.startswith("_")}


def note_definition(reducer: Reducer, definition: Any) -> None:
    """Remember what the notebook defines, so that the worker's main program has it under its name too."""
    name = reducer.notebook.variable_of(definition)
    if name is not None:
        reducer.definitions[name] = None


# By name ------------------------------------------------------------------------------------------------------------


def _by_name(definition: Any) -> Any:
    """How to pickle what a worker can import: by name (NotImplemented: pickle does that itself); None for all else."""
    module_name, qualname = definition.__module__, definition.__qualname__
    if module_name in ("__main__", None) or "<" in qualname:
        return None
    module = sys.modules.get(module_name)
    is_importable = module is not None and modules.is_importable(module)
    if module is None or not (is_importable or modules.has_file(module)):
        return None
    try:
        found = functools.reduce(getattr, qualname.split("."), module)
    except AttributeError:
        return None
    if found is definition:
        return NotImplemented if is_importable else (rebuild.member, (module, qualname))
    return (rebuild.attribute, (module_name, qualname)) if _is_newer(found, definition) else None


def _is_newer(found: Any, definition: Any) -> bool:
    """Whether a module was reloaded since, and `found` is what the same lines define now."""
    if isinstance(definition, type):
        return isinstance(found, type) and (found.__module__, found.__qualname__) == (
            definition.__module__,
            definition.__qualname__,
        )
    new, old = getattr(found, "__code__", None), getattr(definition, "__code__", None)
    if new is None or old is None:
        return False
    return (new.co_filename, new.co_qualname) == (old.co_filename, old.co_qualname)
