"""What the pickles of a payload call when they are loaded. Nothing here is for other code to call."""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import functools
import importlib
import importlib.util
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cloudpickle import cloudpickle

Namespace = dict[str, Any]


# Functions ----------------------------------------------------------------------------------------------------------


def main_globals() -> Namespace:
    """Globals of the notebook's functions; `unpack` puts the namespace that it fills in this one's place."""
    return vars(sys.modules["__main__"])


def own_globals(base: Mapping[str, Any]) -> Namespace:
    """Globals of functions whose module doesn't exist here."""
    return {**base, "__builtins__": builtins}


def make_function(code: types.CodeType, namespace: Namespace, name: str, closure: Any) -> types.FunctionType:
    """A function without its defaults and attributes, which may refer to itself; `fill_function` adds them."""
    return types.FunctionType(code, namespace, name, None, closure)


def fill_function(function: types.FunctionType, state: Mapping[str, Any]) -> None:
    """Give a function the rest of what it had, and its module the globals that it uses."""
    function.__globals__.update(state["globals"])
    function.__dict__.update(state["attributes"])
    for name, value in state["fields"].items():
        setattr(function, name, value)


def make_cell() -> types.CellType:
    """An empty closure cell."""
    return types.CellType()


def fill_cell(cell: types.CellType, content: tuple[Any, ...]) -> None:
    """`content` is empty for a cell that was."""
    if content:
        cell.cell_contents = content[0]


def make_cached(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Any:
    """A function under `functools.lru_cache`, with an empty cache."""
    return functools.lru_cache(maxsize, typed)(function)


def make_cached_property(function: Callable[..., Any], name: str | None) -> Any:
    """A `functools.cached_property`, which holds a lock before Python 3.12."""
    made: Any = functools.cached_property(function)
    made.attrname = name
    return made


# Classes ------------------------------------------------------------------------------------------------------------


def make_class(maker: Callable[..., type], arguments: tuple[Any, ...]) -> type:
    """A class without its contents. `__init_subclass__` isn't called again: what it did is part of the contents."""
    bases = arguments[2] if maker is cloudpickle._make_skeleton_class else arguments[0]
    metaclass = arguments[0]
    with _quiet_bases(bases):
        if maker is not cloudpickle._make_skeleton_class or metaclass.__module__ != "__main__":
            return maker(*arguments)
        _, name, _, options, tracker, _ = arguments
        made = _make_bare(metaclass, name, bases, dict(options))
        return cloudpickle._lookup_class_or_track(tracker, made)


def _make_bare(metaclass: type, name: str, bases: tuple[Any, ...], options: dict[str, Any]) -> type:
    """A class without calling what the notebook's metaclass does to new classes: that is part of the contents, too."""
    library = next(base for base in metaclass.__mro__ if base.__module__ != "__main__")
    resolved = types.resolve_bases(bases)
    if resolved is not bases:
        options["__orig_bases__"] = bases
    return library.__new__(metaclass, name, resolved, options)


def fill_enum(kind: Any, state: tuple[dict[str, Any], dict[str, Any], dict[str, Any]]) -> None:
    """An enum's contents, and what its members have besides their values."""
    cloudpickle._class_setstate(kind, state[:2])
    for name, fields in state[2].items():
        vars(kind.__members__[name]).update(fields)


@contextlib.contextmanager
def _quiet_bases(bases: tuple[type, ...]) -> Iterator[None]:
    """Inside, classes of the notebook don't hear of new subclasses."""
    loud = {base for top in bases if isinstance(top, type) for base in top.__mro__ if _hears_of_subclasses(base)}
    hooks = {base: vars(base)["__init_subclass__"] for base in loud}
    for base in hooks:
        type.__setattr__(base, "__init_subclass__", classmethod(lambda cls, **_: None))
    try:
        yield
    finally:
        for base, hook in hooks.items():
            type.__setattr__(base, "__init_subclass__", hook)


def _hears_of_subclasses(base: type) -> bool:
    return base.__module__ == "__main__" and "__init_subclass__" in vars(base)


# Modules ------------------------------------------------------------------------------------------------------------


def main_module() -> types.ModuleType:
    """This process's main program."""
    return sys.modules["__main__"]


def load_module(name: str, file: str) -> types.ModuleType:
    """A module that no import finds, from its file."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"module {name} can't be loaded from {file}", name=name, path=file)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_module(name: str, doc: str | None, is_registered: bool) -> types.ModuleType:
    """A module that exists in no file; its variables are set after it."""
    module = types.ModuleType(name, doc)
    return sys.modules.setdefault(name, module) if is_registered else module


def fill_module(module: types.ModuleType, variables: Mapping[str, Any]) -> None:
    vars(module).update(variables)


def member(module: types.ModuleType, qualname: str) -> Any:
    """What a module that no import finds calls so."""
    return functools.reduce(getattr, qualname.split("."), module)


def attribute(module: str, qualname: str) -> Any:
    """What a module calls so now."""
    return functools.reduce(getattr, qualname.split("."), importlib.import_module(module))


def notebook_definition(qualname: str) -> Any:
    """A class or function of the notebook; `load_result` puts its own search in this one's place."""
    return functools.reduce(getattr, qualname.split("."), sys.modules["__main__"])


# Values -------------------------------------------------------------------------------------------------------------


def same(value: Any) -> Any:
    """The value itself, in the place of what had wrapped it."""
    return value


def make_type_name(kind: Callable[..., Any], module: str, arguments: tuple[Any, ...]) -> Any:
    """A `NewType`, `ParamSpec` or `TypeVarTuple` of the notebook."""
    made = kind(*arguments)
    made.__module__ = module
    return made


def make_weak(kind: type, items: list[Any]) -> Any:
    """A weak dictionary or set of what is still used elsewhere."""
    return kind(items)


def make_array(memory: Any, dtype: Any, shape: tuple[int, ...], offset: int, strides: Any, is_writable: bool) -> Any:
    """A NumPy array that shows `memory`; `offset` and `strides` in bytes."""
    import numpy

    array = numpy.ndarray(shape, dtype, memory, offset, strides)
    if not is_writable:
        array.flags.writeable = False
    return array


def view_array(array: Any, kind: type, dtype: Any, attributes: Mapping[str, Any]) -> Any:
    """A NumPy array as one of a subclass."""
    view = array.view(kind)
    if view.dtype is not dtype:
        view.dtype = dtype
    view.__dict__.update(attributes)
    return view


def map_array(
    file: str, dtype: Any, mode: str, shape: tuple[int, ...], offset: int, strides: tuple[int, ...], is_plain: bool
) -> Any:
    """A NumPy array in a file of the user's, which the notebook had mapped too; `offset` in bytes."""
    import numpy

    size = sum((length - 1) * step for length, step in zip(shape, strides, strict=True)) + dtype.itemsize
    memory: Any = numpy.memmap(file, numpy.uint8, mode, offset, (size,))  # type: ignore[call-overload]
    array: Any = numpy.ndarray(shape, dtype, memory, 0, strides)
    if not is_plain:
        array = array.view(numpy.memmap)
        array._mmap, array.filename, array.offset, array.mode = memory._mmap, memory.filename, offset, mode
    return array


def make_tensor(
    storage: Any, dtype: Any, offset: int, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool
) -> Any:
    """A tensor without any of the things that few tensors have."""
    import torch

    tensor = torch.empty(0, dtype=dtype).set_(storage, offset, size, stride)
    return tensor.requires_grad_() if requires_grad else tensor


def make_storage(memory: Any) -> Any:
    """A torch storage that shows `memory`."""
    import torch

    return torch.frombuffer(memory, dtype=torch.uint8).untyped_storage() if len(memory) else torch.UntypedStorage(0)


def copy_storage(content: bytes) -> Any:
    """A small torch storage with memory of its own, which may be resized."""
    import torch

    storage = torch.UntypedStorage(len(content))
    ctypes.memmove(storage.data_ptr(), content, len(content))
    return storage


def typed_storage(storage: Any, dtype: Any) -> Any:
    """The form in which torch's own functions want a storage."""
    import torch

    return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def fill_tensor(tensor: Any, fields: Mapping[str, Any]) -> None:
    """A tensor's gradient and hooks."""
    for name, value in fields.items():
        setattr(tensor, name, value)


def fill_scheduler(scheduler: Any, state: Mapping[str, Any]) -> None:
    """A learning rate scheduler's state; it watches its optimizer's steps, as when it was made."""
    scheduler.__dict__.update(state)
    _count_steps(scheduler.optimizer)


def _count_steps(optimizer: Any) -> None:
    """What `LRScheduler.__init__` does to an optimizer, so that it can tell the order in which both are stepped."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    reference, function = weakref.ref(optimizer), optimizer.step.__func__

    @functools.wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        watched: Any = reference()
        watched._opt_called = True
        return function.__get__(watched, type(watched))(*args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step


# What only the notebook has -----------------------------------------------------------------------------------------


def display(*values: Any, **_: Any) -> None:
    """IPython's `display` where there is no notebook: prints."""
    for value in values:
        print(value)


def get_ipython() -> Any:
    """Fails as an undefined name does, since programs ask in this way whether they are in a notebook."""
    raise NameError(
        "name 'get_ipython' is not defined: the cell runs in worker processes, which are plain Python programs"
    )


STAND_INS: Mapping[str, Callable[..., Any]] = {"display": display, "get_ipython": get_ipython}
"""Names that every cell knows in the notebook, and what they are in a worker."""
