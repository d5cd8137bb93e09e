"""How NumPy arrays and Arrow data travel: as views of memory that is written once. Neither library is imported here."""

from __future__ import annotations

import mmap
import os
import sys
from typing import TYPE_CHECKING, Any

from jtrain.capture import rebuild
from jtrain.capture.regions import SMALL_BYTES, Region

if TYPE_CHECKING:
    from jtrain.capture.reducer import Reducer

_SPARSE = 4
"""A view that shows less than one in so many bytes of its stretch of memory travels as a copy of its own."""


def reduce_array(reducer: Reducer, array: Any) -> Any:
    """An array of the type `numpy.ndarray`, or of a subclass that leaves pickling to it."""
    numpy = sys.modules["numpy"]
    kind = type(array)
    if array.dtype.hasobject or array.dtype.itemsize == 0:
        return NotImplemented
    if kind in (numpy.ndarray, numpy.memmap):
        return _reduce_mapped(array) or _reduce_plain(reducer, array)
    if kind.__reduce__ is not numpy.ndarray.__reduce__ or kind.__reduce_ex__ is not numpy.ndarray.__reduce_ex__:
        return NotImplemented
    return rebuild.view_array, (array.view(numpy.ndarray), kind, array.dtype, dict(vars(array)))


def _reduce_plain(reducer: Reducer, array: Any) -> Any:
    region, offset, array = _region_of(reducer, array)
    return rebuild.make_array, (region, array.dtype, array.shape, offset, array.strides, array.flags.writeable)


def _region_of(reducer: Reducer, array: Any) -> tuple[Region, int, Any]:
    """The memory that an array shows, where in it the first element is, and the array itself (or a dense copy)."""
    root = _root(array)
    low, high = _bounds(array)
    start, end = (low, high) if root is array else _bounds(root)
    if not _is_dense(root) or not start <= low <= high <= end or high - low > _SPARSE * array.nbytes:
        array = root = _copy(array)
        low, high = start, end = _bounds(array)
    content = memoryview(_bytes_of(root))
    region = reducer.regions.find((start, end), end - start, lambda first, last: content[first:last], root)
    region.show(low - start, high - start)
    return region, _address(array) - start, array


def _root(array: Any) -> Any:
    """The array that owns the memory, or that shows all of what somebody else owns."""
    numpy = sys.modules["numpy"]
    while True:
        base = array.base
        if type(base).__name__ == "DummyArray":  # what stands between an array and numpy.lib.stride_tricks of it
            base = base.base
        if not isinstance(base, numpy.ndarray) or base.dtype.hasobject:
            return array
        array = base


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _bounds(array: Any) -> tuple[int, int]:
    """The first address that an array shows, and the one after the last."""
    if array.flags.c_contiguous or not array.size:
        first = _address(array)
        return first, first + array.nbytes
    first, last = sys.modules["numpy"].lib.array_utils.byte_bounds(array)
    return int(first), int(last)


def _is_dense(array: Any) -> bool:
    return bool(array.flags.c_contiguous or array.flags.f_contiguous)


def _copy(array: Any) -> Any:
    copy = sys.modules["numpy"].array(array, order="F" if array.flags.fnc else "C", copy=True, subok=False)
    copy.flags.writeable = array.flags.writeable
    return copy


def _bytes_of(array: Any) -> Any:
    """A dense array's memory as a flat array of bytes."""
    numpy = sys.modules["numpy"]
    plain = array.view(numpy.ndarray)
    flat = plain.reshape(-1) if plain.flags.c_contiguous else plain.T.reshape(-1)
    return flat.view(numpy.uint8)


def _reduce_mapped(array: Any) -> Any:
    """An array in a file that the notebook mapped: it is mapped again from there. None when it has to be copied."""
    numpy = sys.modules["numpy"]
    root = _root(array)
    if type(root) is not numpy.memmap or getattr(root, "_mmap", None) is None or root.mode not in ("r", "r+", "w+"):
        return None
    if not array.size or min(array.strides, default=0) < 0 or not os.path.isfile(root.filename or ""):
        return None
    # A mapping starts at a multiple of the allocation granularity, at or before the array that was asked for.
    start = root.offset - root.offset % mmap.ALLOCATIONGRANULARITY
    first = numpy.frombuffer(root._mmap, numpy.uint8)
    place = start + _address(array) - _address(first)
    mode = "r" if root.mode == "r" else "r+"
    is_plain = type(array) is numpy.ndarray
    arguments = (os.path.abspath(root.filename), array.dtype, mode, array.shape, place, array.strides, is_plain)
    return rebuild.map_array, arguments


# Arrow (tables, and the strings of pandas) ---------------------------------------------------------------------------


def reduce_arrow_buffer(reducer: Reducer, buffer: Any) -> Any:
    if not buffer.is_cpu:
        return NotImplemented
    content = memoryview(buffer)
    key = (buffer.address, buffer.address + buffer.size)
    region = reducer.regions.find(key, buffer.size, lambda first, last: content[first:last], buffer)
    region.show_all()
    return sys.modules["pyarrow"].py_buffer, (region,)


def reduce_arrow_array(reducer: Reducer, array: Any) -> Any:
    """An array that is a small part of its buffers leaves the rest behind."""
    if array.get_total_buffer_size() <= _SPARSE * (array.nbytes + SMALL_BYTES):
        return NotImplemented
    return sys.modules["pyarrow"].concat_arrays([array]).__reduce__()
