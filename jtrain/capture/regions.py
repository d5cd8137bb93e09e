"""Big pieces of memory: collected while values are pickled, then written once each, whoever shows them."""

from __future__ import annotations

import mmap
import os
import pickle
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Protocol

SMALL_BYTES = 2048
"""Smaller regions stay inside the pickle."""
_PAGE_BYTES = mmap.PAGESIZE
_LINE_BYTES = 64
"""What vector instructions and caches want data to be aligned to."""
_CHUNK_BYTES = 4 * 1024 * 1024
"""What is hashed and then written at once: the writing finds it in the processor's cache."""
_MOST_PARTS = 512
"""Parts of one system call; Linux takes 1024 (IOV_MAX)."""

Read = Callable[[int, int], memoryview]
"""The bytes of a region from one offset to another."""


class Region:
    """Memory of `size` bytes. Only bytes between `low` and `high`, which values show, are written.

    A view of ten elements of a large array therefore costs ten elements, and views that overlap stay views of one
    memory. `owner`: the variable that was being captured when the region was met.
    """

    __slots__ = ("high", "keeper", "low", "owner", "placeholder", "read", "size")

    def __init__(self, size: int, read: Read, keeper: object = None, owner: str = "") -> None:
        self.size = size
        self.read = read
        self.keeper = keeper
        self.owner = owner
        self.low, self.high = size, 0
        self.placeholder: pickle.PickleBuffer | None = None

    def show(self, low: int, high: int) -> None:
        """Note that the bytes from `low` to `high` are needed."""
        self.low, self.high = min(self.low, low), max(self.high, high)

    def show_all(self) -> None:
        self.show(0, self.size)

    @property
    def shown_bytes(self) -> int:
        """Bytes that are written."""
        return max(0, self.high - self.low)


class Regions:
    """All regions of one capture."""

    def __init__(self) -> None:
        self.written: list[Region] = []
        """Those outside of the pickle, in the order in which it refers to them."""
        self.owner = ""
        self._known: dict[object, Region] = {}
        self._waiting: dict[int, Region] = {}

    def find(self, key: object, size: int, read: Read, keeper: object) -> Region:
        """The region known by `key`, or a new one. `keeper` owns the memory and is held until the capture ends."""
        region = self._known.get(key)
        if region is None:
            region = self._known[key] = Region(size, read, keeper, self.owner)
        return region

    def reduce(self, region: Region) -> tuple[Any, ...]:
        """How a region is pickled: loads as something writable with the buffer interface."""
        if region.size < SMALL_BYTES:
            return bytearray, (bytes(region.read(0, region.size)),)
        region.placeholder = pickle.PickleBuffer(bytearray(1))
        self._waiting[id(region.placeholder)] = region
        return memoryview, (region.placeholder,)

    def take(self, buffer: pickle.PickleBuffer) -> bool:
        """The pickler's `buffer_callback`: true keeps the buffer inside the pickle."""
        region = self._waiting.pop(id(buffer), None)
        if region is None:
            # A buffer of somebody else, such as an Arrow table.
            content = buffer.raw()
            if content.nbytes < SMALL_BYTES:
                return True
            region = Region(content.nbytes, lambda low, high: content[low:high], content, self.owner)
            region.show_all()
        self.written.append(region)
        return False

    def bytes_by_owner(self) -> dict[str, int]:
        """Bytes that will be written for each variable."""
        sizes: dict[str, int] = {}
        for region in self.written:
            sizes[region.owner] = sizes.get(region.owner, 0) + region.shown_bytes
        return sizes

    @property
    def total_bytes(self) -> int:
        """Bytes that will be written outside of the pickle."""
        return sum(region.shown_bytes for region in self.written)


class Digest(Protocol):
    """A running checksum."""

    def update(self, data: Any, /) -> None: ...


def write_regions(descriptor: int, regions: Sequence[Region], digest: Digest) -> tuple[array[int], int]:
    """Write all regions to an empty file; returns their places (start, size, start, size, …) and the file's size.

    Bytes that no value shows are left as holes of the file. Memory is written from where it is: nothing is copied.
    """
    places: array[int] = array("Q")
    writer = _Writer(descriptor, digest)
    end = 0
    for region in regions:
        alignment = _PAGE_BYTES if region.size >= 16 * _PAGE_BYTES else _LINE_BYTES
        start = -(-end // alignment) * alignment
        end = start + region.size
        places.extend((start, region.size))
        digest.update(f"{region.size} {region.low} {region.high}".encode())
        for low in range(region.low, region.high, _CHUNK_BYTES):
            writer.write(region.read(low, min(low + _CHUNK_BYTES, region.high)), start + low)
    writer.flush()
    os.ftruncate(descriptor, end)
    return places, end


class _Writer:
    """Writes many small parts with few system calls."""

    def __init__(self, descriptor: int, digest: Digest) -> None:
        self._descriptor = descriptor
        self._digest = digest
        self._parts: list[memoryview] = []
        self._start = self._end = 0

    def write(self, part: memoryview, place: int) -> None:
        """Put `part` at `place`, which is never before the end of the part before it."""
        gap = place - self._end
        if gap > _PAGE_BYTES or len(self._parts) >= _MOST_PARTS or self._end - self._start >= _CHUNK_BYTES:
            self.flush()
        if not self._parts:
            self._start = self._end = place
        elif gap:
            self._parts.append(memoryview(bytes(gap)))
        self._digest.update(part)
        self._parts.append(part)
        self._end = place + part.nbytes

    def flush(self) -> None:
        while self._parts:
            done = os.pwritev(self._descriptor, self._parts, self._start)
            self._start += done
            while self._parts and done >= self._parts[0].nbytes:
                done -= self._parts.pop(0).nbytes
            if done:
                self._parts[0] = self._parts[0][done:]
