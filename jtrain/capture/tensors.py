"""How torch's tensors travel: as views of storages that are written once. torch is only looked at when it is loaded.

A tensor that is the result of a computation which tracks gradients arrives as its values: the graph behind it belongs
to the kernel. A tensor on a GPU arrives on the CPU, where `run.prepare` or `.to(device)` takes it from.
"""

from __future__ import annotations

import ctypes
import sys
import warnings
from typing import TYPE_CHECKING, Any

from jtrain.capture import rebuild
from jtrain.capture.regions import SMALL_BYTES, Region

if TYPE_CHECKING:
    from jtrain.capture.reducer import Reducer


class SharedStorage:
    """Stands for a storage in the pickles of the tensors that show it; a large one has a region."""

    def __init__(self, storage: Any, region: Region | None) -> None:
        self.storage = storage
        self.region = region


class TypedView:
    """Stands for the typed storage that torch's rebuilding functions want."""

    def __init__(self, shared: SharedStorage, dtype: Any) -> None:
        self.shared = shared
        self.dtype = dtype


def reduce_tensor(reducer: Reducer, tensor: Any) -> Any:
    """A tensor of any kind; leaves keep their gradients and hooks, which torch leaves out."""
    if not tensor.is_leaf:
        tensor, fields = tensor.detach(), {}
    else:
        fields = _fields(tensor)
    function, arguments = _parts(reducer, tensor, has_hooks=bool(fields))
    return (function, arguments, fields, None, None, rebuild.fill_tensor) if fields else (function, arguments)


def _fields(tensor: Any) -> dict[str, Any]:
    found = {"_backward_hooks": tensor._backward_hooks, "grad": tensor.grad}
    if tensor.requires_grad:
        found["_post_accumulate_grad_hooks"] = tensor._post_accumulate_grad_hooks
    return {name: value for name, value in found.items() if value is not None}


def _parts(reducer: Reducer, tensor: Any, *, has_hooks: bool) -> tuple[Any, tuple[Any, ...]]:
    if _is_usual(tensor):
        shared = _share(reducer, tensor.untyped_storage(), tensor)
        place = (tensor.storage_offset(), tuple(tensor.size()), tensor.stride())
        return rebuild.make_tensor, (shared, tensor.dtype, *place, tensor.requires_grad)
    with warnings.catch_warnings():
        if has_hooks:  # torch warns that it leaves them out
            warnings.simplefilter("ignore")
        function, arguments = tensor.__reduce_ex__(5)
    return function, _with_view(reducer, tensor, function, arguments)


def _is_usual(tensor: Any) -> bool:
    """Whether torch's own way of taking a tensor apart has nothing to add; it is the slowest step for small ones."""
    torch = sys.modules["torch"]
    is_plain = type(tensor) is torch.Tensor and tensor.layout is torch.strided and not vars(tensor)
    return (
        is_plain
        and tensor.device.type in ("cpu", "cuda")
        and not (tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg())
    )


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
    shared = reducer.storages.get(id(storage))
    if shared is None:
        region = None if storage.nbytes() < SMALL_BYTES else _region(reducer, storage)
        shared = reducer.storages[id(storage)] = SharedStorage(storage, region)
    if shared.region is not None:
        shared.region.show(*_shown(tensor))
    return shared


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
    if shared.region is not None:
        return rebuild.make_storage, (shared.region,)
    storage = shared.storage if shared.storage.device.type == "cpu" else shared.storage.cpu()
    return rebuild.copy_storage, (ctypes.string_at(storage.data_ptr(), storage.nbytes()),)


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
