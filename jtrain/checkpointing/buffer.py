"""Memory that holds the copy of a state while it is written: kept from one checkpoint to the next, since fresh memory
costs several times as much as the copy (a page fault for every 4 KiB)."""

from __future__ import annotations

import mmap
import sys

import torch


class Buffer:
    """Bytes that grow to what is asked for, and are never smaller again until `release`."""

    def __init__(self) -> None:
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def take(self, size_bytes: int, *, is_pinned: bool) -> torch.Tensor:
        """uint8[size_bytes] of whatever content; the same memory at every call. `is_pinned`: GPUs copy to it."""
        if len(self._bytes) < size_bytes or (is_pinned and not self._bytes.is_pinned()):
            self._bytes = torch.empty(0, dtype=torch.uint8)  # the old one goes first: there is never room for two
            self._bytes = _allocate(size_bytes, is_pinned=is_pinned)
        return self._bytes[:size_bytes]

    def warm(self, size_bytes: int, *, is_pinned: bool) -> None:
        """Have the pages there before the first checkpoint needs them."""
        self.take(size_bytes, is_pinned=is_pinned).zero_()

    def release(self) -> None:
        """Give the memory back."""
        self._bytes = torch.empty(0, dtype=torch.uint8)


def _allocate(size_bytes: int, *, is_pinned: bool) -> torch.Tensor:
    if size_bytes == 0:
        return torch.empty(0, dtype=torch.uint8)
    if is_pinned:
        return torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True)
    memory = mmap.mmap(-1, size_bytes)
    if sys.platform == "linux":
        memory.madvise(mmap.MADV_HUGEPAGE)
        # DataLoader workers are forked from here: shared with them, each page would be copied at its next write.
        memory.madvise(mmap.MADV_DONTFORK)
    return torch.frombuffer(memory, dtype=torch.uint8)
