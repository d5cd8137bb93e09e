"""Takes a state apart: its tensors are copied into a buffer, the rest is pickled with their names in their places.

Of tensors that are spread over ranks (DTensor: FSDP2, tensor parallelism) it takes the slices that this rank has.
"""

from __future__ import annotations

import copy
import io
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from jtrain.checkpointing.buffer import Buffer
from jtrain.checkpointing.spread import is_spread, local_slices

DTYPES: Mapping[torch.dtype, str] = {
    torch.complex64: "C64",
    torch.float64: "F64",
    torch.int64: "I64",
    torch.uint64: "U64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.uint32: "U32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}
"""Names of the safetensors format; tensors of other kinds are pickled with the rest."""


@dataclass(frozen=True)
class Slot:
    """Stands for the tensor `name` of the whole `shape`."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Slice:
    """Where in the whole tensor of `shape` the stored part begins."""

    offsets: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Entry:
    """A tensor to be stored, and of one that is spread over ranks the place of this part."""

    name: str
    tensor: torch.Tensor
    slice: Slice | None = None


@dataclass(frozen=True)
class Placed:
    """A tensor in the buffer: bytes `begin` to `end`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int
    slice: Slice | None


@dataclass(frozen=True)
class Staged:
    """A copy of a state, independent of it: `content` has the `tensors`; `rest` is what torch.save made of it else."""

    tensors: list[Placed]
    content: torch.Tensor
    rest: bytes

    @property
    def size_bytes(self) -> int:
        """What it takes on the disk, but for a few headers."""
        return len(self.content) + len(self.rest)


@dataclass
class Parts:
    """A state that has been taken apart, not copied yet."""

    entries: list[Entry] = field(default_factory=list)
    is_loose: bool = True
    """Whether only the numbers in tensors count: they are copied into others. What else there may be to a tensor is
    kept by pickling it: that it is a parameter, wants a gradient, is a view."""
    _names: set[str] = field(default_factory=set)
    _seen: dict[tuple[Any, ...], Slot] = field(default_factory=dict)
    _open: set[int] = field(default_factory=set)

    def split(self, value: Any, path: str) -> Any:
        """`value` with Slots where its tensors were; names begin with `path`. What is in an object stays in it."""
        if isinstance(value, torch.Tensor):
            is_good = _can_be_stored(value) and (self.is_loose or _is_bare(value))
            return self._add(value, path) if is_good else value
        kind = type(value)
        if kind not in (dict, OrderedDict, list, tuple) or id(value) in self._open or not _may_hold_tensors(value):
            return value
        self._open.add(id(value))
        try:
            if kind in (list, tuple):
                return kind(self.split(item, f"{path}.{index}") for index, item in enumerate(value))
            copied = copy.copy(value)  # with the attributes that a module's state_dict has
            for key, item in value.items():
                copied[key] = self.split(item, f"{path}.{key}")
            return copied
        finally:
            self._open.discard(id(value))

    def _add(self, tensor: torch.Tensor, path: str) -> Slot:
        key = _identity(tensor)
        if key is not None and key in self._seen:
            return self._seen[key]
        name = self._free_name(path)
        slot = Slot(name, tuple(tensor.shape))
        if key is not None:
            self._seen[key] = slot
        if is_spread(tensor):
            for part, offsets, shape in local_slices(name, tensor):
                self.entries.append(Entry(name, part, Slice(offsets, shape)))
        else:
            self.entries.append(Entry(name, tensor.detach()))
        return slot

    def _free_name(self, path: str) -> str:
        name, number = path, 1
        while name in self._names:
            number += 1
            name = f"{path}~{number}"
        self._names.add(name)
        return name

    @property
    def size_bytes(self) -> int:
        """Of all tensors."""
        return sum(entry.tensor.nbytes for entry in self.entries)

    @property
    def is_on_gpu(self) -> bool:
        """Whether any of them is in a GPU's memory."""
        return any(entry.tensor.is_cuda for entry in self.entries)


def _may_hold_tensors(value: Any) -> bool:
    """Spares a walk through long lists of numbers."""
    items = value.values() if isinstance(value, dict) else value
    return any(isinstance(item, (torch.Tensor, dict, list, tuple)) for item in items)


def _can_be_stored(tensor: torch.Tensor) -> bool:
    if is_spread(tensor):
        return tensor.dtype in DTYPES
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided
    return is_plain and tensor.dtype in DTYPES and not tensor.is_conj() and not tensor.is_neg() and not tensor.is_meta


def _is_bare(tensor: torch.Tensor) -> bool:
    """Whether there is nothing to `tensor` but its numbers."""
    if is_spread(tensor):
        return True
    is_alone = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
    return type(tensor) is torch.Tensor and not tensor.requires_grad and is_alone


def _identity(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    """Equal for two tensors that are the same memory: tied weights are stored once."""
    if is_spread(tensor):
        return ("spread", id(tensor._local_tensor), *tensor.shape)
    if not tensor.numel():
        return None
    return (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())


def stage(tree: Mapping[str, Any], parts: Parts, buffer: Buffer) -> Staged:
    """Copy what `parts` holds into `buffer`, and pickle `tree`, from which its tensors were split. Blocks for one copy.

    Raises whatever pickling a user's object raises.
    """
    file = io.BytesIO()
    torch.save(dict(tree), file)
    # As the format has it: without gaps, and so sorted that each tensor is aligned.
    entries = sorted(parts.entries, key=lambda entry: -entry.tensor.element_size())
    content = buffer.take(parts.size_bytes, is_pinned=parts.is_on_gpu)
    placed, begin = [], 0
    for entry in entries:
        tensor = entry.tensor
        end = begin + tensor.nbytes
        if tensor.numel():
            target = content[begin:end].view(tensor.dtype).view(tensor.shape)
            target.copy_(tensor, non_blocking=tensor.is_cuda)
        placed.append(Placed(entry.name, DTYPES[tensor.dtype], tuple(tensor.shape), begin, end, entry.slice))
        begin = end
    if parts.is_on_gpu:
        torch.cuda.synchronize()
    return Staged(placed, content, file.getvalue())
