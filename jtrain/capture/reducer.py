"""How each kind of object is taken apart for its pickle, or refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from jtrain.capture import arrays, definitions, modules, rebuild, tensors, training
from jtrain.capture.notebook import Notebook
from jtrain.capture.refusals import Refused, find_refusal, full_name
from jtrain.capture.regions import Region, Regions

Handler = Callable[["Reducer", Any], Any]


class Reducer:
    """Takes objects apart. `reduce` is the `reducer_override` of a pickler.

    `sources` are the names of files whose functions were met, `definitions` variables with functions and classes,
    `packages` the modules; `stand_ins` the names among them that only a kernel has, but that a worker can stand in for.
    """

    handlers: dict[str, Handler]
    """By the full name of a class, which stands for its subclasses too."""

    def __init__(self, notebook: Notebook) -> None:
        self.notebook = notebook
        self.regions = Regions()
        self.storages: dict[int, tensors.SharedStorage] = {}
        self.sources: dict[str, None] = {}
        self.definitions: dict[str, None] = {}
        self.packages: dict[str, None] = {}
        self.stand_ins: dict[str, None] = {}
        self.used_names: set[str] = set()
        self.markers: dict[int, object] = {}
        self._main_globals: object = definitions.MainGlobals()
        self._handlers: dict[type, Handler | None] = {}

    def reduce(self, obj: Any) -> Any:
        """How `obj` is pickled; NotImplemented: as pickle does it. Raises Refused for what must not travel."""
        kind = type(obj)
        try:
            handler = self._handlers[kind]
        except KeyError:
            handler = self._handlers[kind] = self._find_handler(kind)
        return NotImplemented if handler is None else handler(self, obj)

    def main_globals(self) -> object:
        """What stands for the globals of the notebook's functions."""
        return self._main_globals

    def _find_handler(self, kind: type) -> Handler | None:
        if kind in (type(sys.stdout), type(sys.stderr)):
            return _reduce_stream
        if find_refusal(kind) is not None:
            return _refuse
        for base in kind.__mro__:
            handler = self.handlers.get(full_name(base))
            if handler is not None:
                return handler
        return None


def _refuse(reducer: Reducer, obj: Any) -> Any:
    refusal = find_refusal(type(obj))
    assert refusal is not None
    raise Refused(refusal.what)


def _reduce_stream(reducer: Reducer, stream: Any) -> Any:
    """The standard streams are each process's own."""
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        if stream is getattr(sys, name):
            return getattr, (sys, name.strip("_"))
    return _refuse(reducer, stream)


_SINGLETONS = (
    ("dataclasses", "MISSING"),
    ("dataclasses", "KW_ONLY"),
    ("dataclasses", "_HAS_DEFAULT_FACTORY"),
    ("os", "environ"),
    ("random", "_inst"),
    ("numpy.random.mtrand", "_rand"),
    ("torch", "default_generator"),
)
"""What every process has once, and by whose identity libraries go; among them what `from random import random` uses."""


def _reduce_singleton(reducer: Reducer, value: Any) -> Any:
    for module, name in _SINGLETONS:
        if module in sys.modules and getattr(sys.modules[module], name, None) is value:
            return rebuild.attribute, (module, name)
    return NotImplemented


def _reduce_weak(reducer: Reducer, weak: Any) -> Any:
    items = list(weak.items()) if hasattr(weak, "items") else list(weak)
    return rebuild.make_weak, (type(weak), items)


def _reduce_region(reducer: Reducer, region: Region) -> Any:
    return reducer.regions.reduce(region)


Reducer.handlers = {
    "builtins.type": definitions.reduce_class,
    "builtins.function": definitions.reduce_function,
    "builtins.code": definitions.reduce_code,
    "builtins.cell": definitions.reduce_cell,
    "builtins.module": modules.reduce_module,
    "functools._lru_cache_wrapper": definitions.reduce_cached,
    "functools.cached_property": definitions.reduce_cached_property,
    "typing.NewType": definitions.reduce_type_name,
    "typing.ParamSpec": definitions.reduce_type_name,
    "typing.TypeVarTuple": definitions.reduce_type_name,
    "weakref.WeakKeyDictionary": _reduce_weak,
    "weakref.WeakValueDictionary": _reduce_weak,
    "_weakrefset.WeakSet": _reduce_weak,
    "dataclasses._MISSING_TYPE": _reduce_singleton,
    "dataclasses._KW_ONLY_TYPE": _reduce_singleton,
    "dataclasses._HAS_DEFAULT_FACTORY_CLASS": _reduce_singleton,
    "os._Environ": _reduce_singleton,
    "random.Random": _reduce_singleton,
    "numpy.random.mtrand.RandomState": _reduce_singleton,
    "torch._C.Generator": _reduce_singleton,
    "jtrain.capture.regions.Region": _reduce_region,
    "jtrain.capture.tensors.SharedStorage": tensors.reduce_shared,
    "jtrain.capture.tensors.TypedView": tensors.reduce_view,
    "numpy.ndarray": arrays.reduce_array,
    "pyarrow.lib.Buffer": arrays.reduce_arrow_buffer,
    "pyarrow.lib.Array": arrays.reduce_arrow_array,
    "torch.Tensor": tensors.reduce_tensor,
    "torch.storage.UntypedStorage": tensors.reduce_storage,
    "torch.storage.TypedStorage": tensors.reduce_typed_storage,
    "torch.nn.modules.module.Module": training.reduce_torch_module,
    "torch.utils.data.dataloader.DataLoader": training.reduce_loader,
    "torch.optim.lr_scheduler.LRScheduler": training.reduce_scheduler,
}
