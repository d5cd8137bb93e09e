"""How torch's tensors travel: as views of storages that are written once. torch is only looked at when it is loaded.

A tensor that is the result of a computation which tracks gradients arrives as its values: the graph behind it belongs
to the kernel. A tensor on a GPU arrives on the CPU, where `run.prepare` or `.to(device)` takes it from.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from jtrain.capture import rebuild
from jtrain.capture.regions import Region

if TYPE_CHECKING:
    from jtrain.capture.reducer import Reducer


class SharedStorage:
    """Stands for a storage in the pickles of the tensors that show it; each of them has said what it shows."""

    def __init__(self, storage: Any, region: Region) -> None:
        self.storage = storage
        self.region = region


class TypedView:
    """Stands for the typed storage that torch's rebuilding functions want."""

    def __init__(self, shared: SharedStorage, dtype: Any) -> None:
        self.shared = shared
        self.dtype = dtype


def reduce_tensor(reducer: Reducer, tensor: Any) -> Any:
    """A tensor of any kind; leaves keep their gradients and hooks, which torch leaves out."""
    fields = _fields(tensor) if tensor.is_leaf else {}
    with warnings.catch_warnings():
        if fields:  # torch warns of hooks, which aren't lost here
            warnings.simplefilter("ignore")
        function, arguments = (tensor if tensor.is_leaf else tensor.detach()).__reduce_ex__(5)
    arguments = _with_view(reducer, tensor, function, arguments)
    return (function, arguments, fields, None, None, rebuild.fill_tensor) if fields else (function, arguments)


def _fields(tensor: Any) -> dict[str, Any]:
    found = {"_backward_hooks": tensor._backward_hooks}
    if tensor.requires_grad:
        found["_post_accumulate_grad_hooks"] = tensor._post_accumulate_grad_hooks
    found["grad"] = tensor.grad
    return {name: value for name, value in found.items() if value is not None}


def _with_view(reducer: Reducer, tensor: Any, function: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of one of torch's rebuilding functions, with a view in the place of the storage."""
    torch = sys.modules["torch"]
    if function is torch._tensor._rebuild_from_type_v2:
        inner, kind, inner_arguments, state = arguments
        return inner, kind, _with_view(reducer, tensor, inner, inner_arguments), state
    if function in (torch._utils._rebuild_tensor_v2, torch._utils._rebuild_qtensor):
        shared = _share(reducer, arguments[0]._untyped_storage, tensor)
        return TypedView(shared, arguments[0].dtype), *arguments[1:]
    if function is torch._utils._rebuild_tensor_v3:
        return TypedView(_share(reducer, arguments[0], tensor), torch.uint8), *arguments[1:]
    return arguments


def _share(reducer: Reducer, storage: Any, tensor: Any) -> SharedStorage:
    region = _region(reducer, storage)
    region.show(*_shown(tensor))
    if id(storage) not in reducer.storages:
        reducer.storages[id(storage)] = SharedStorage(storage, region)
    return reducer.storages[id(storage)]


def _shown(tensor: Any) -> tuple[int, int]:
    """The first byte of its storage that a tensor shows, and the one after the last."""
    size = tensor.element_size()
    low = tensor.storage_offset() * size
    if not tensor.numel():
        return low, low
    last = sum((length - 1) * step for length, step in zip(tensor.size(), tensor.stride(), strict=True))
    return low, low + (last + 1) * size


def reduce_view(reducer: Reducer, view: TypedView) -> Any:
    return rebuild.typed_storage, (view.shared, view.dtype)


def reduce_shared(reducer: Reducer, shared: SharedStorage) -> Any:
    return rebuild.make_storage, (shared.region,)


def reduce_storage(reducer: Reducer, storage: Any) -> Any:
    """A storage that a value holds by itself: all of it is needed."""
    region = _region(reducer, storage)
    region.show_all()
    return rebuild.make_storage, (region,)


def reduce_typed_storage(reducer: Reducer, storage: Any) -> Any:
    return rebuild.typed_storage, (storage._untyped_storage, storage.dtype)


def _region(reducer: Reducer, storage: Any) -> Region:
    address, size = storage.data_ptr(), storage.nbytes()
    is_on_cpu = storage.device.type == "cpu"

    def read(low: int, high: int) -> memoryview:
        torch = sys.modules["torch"]
        content = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)[low:high]
        return memoryview((content if is_on_cpu else content.cpu()).numpy())

    # NumPy arrays have the same keys: memory that both show is written once.
    key: object = (address, address + size) if is_on_cpu else (str(storage.device), address, size)
    return reducer.regions.find(key, size, read, storage)
