"""Writes a rank's part of a checkpoint: its tensors as a safetensors file, the rest beside it.

The file is written here and not by the safetensors library, which reads it: the bytes are hashed on their way, and
Python's lock is free meanwhile, so that the training goes on.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import xxhash

from jtrain.checkpointing.staging import Placed, Staged
from jtrain.domain.checkpoints import FileEntry, part_files

_CHUNK_BYTES = 8 << 20
"""Hashed and then written while it is still in the processor's cache."""

_BLOCK_BYTES = 4096
"""What a disk's sectors, a file system's blocks and the processor's pages are divisors of, or are."""

_DIRECT: int = getattr(os, "O_DIRECT", 0)

SLICES = "jtrain.slices"
"""In the file's metadata: offsets and whole shapes of tensors that are spread over ranks, as JSON by name."""


def write_part(folder: Path, rank: int, staged: Staged) -> dict[str, FileEntry]:
    """Write the files of `rank` and have them on the disk. Returns their sizes and digests by name. Raises OSError."""
    tensors, rest = part_files(rank)
    content = memoryview(staged.content.numpy())
    return {
        tensors: _write(folder / tensors, [_header(staged.tensors), content]),
        rest: _write(folder / rest, [memoryview(staged.rest)]),
    }


def _header(tensors: list[Placed]) -> memoryview:
    """The header of a safetensors file: its length in 8 bytes, little-endian, then JSON, here padded to whole blocks.
    https://huggingface.co/docs/safetensors (format)"""
    entries: dict[str, object] = {}
    slices: dict[str, list[dict[str, object]]] = {}
    for tensor in tensors:
        name = tensor.name
        if tensor.slice is not None:
            parts = slices.setdefault(tensor.name, [])
            name = f"{tensor.name}#{len(parts)}"
            parts.append({"offsets": tensor.slice.offsets, "shape": tensor.slice.shape, "stored": name})
        entries[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [tensor.begin, tensor.end]}
    entries["__metadata__"] = {"format": "pt", SLICES: json.dumps(slices)}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _BLOCK_BYTES)
    header = mmap.mmap(-1, 8 + len(text))  # begins with a page, as is needed to write it directly
    header[:] = len(text).to_bytes(8, "little") + text
    return memoryview(header)


def _write(path: Path, parts: list[memoryview]) -> FileEntry:
    digest, size = xxhash.xxh3_128(), 0
    file = _File(path)
    try:
        for chunk in _chunks(parts):
            digest.update(chunk)
            file.write(chunk)
            size += len(chunk)
        os.fsync(file.descriptor)
    finally:
        os.close(file.descriptor)
    return FileEntry(size_bytes=size, digest=digest.hexdigest())


def _chunks(parts: list[memoryview]) -> Iterator[memoryview]:
    for part in parts:
        for begin in range(0, len(part), _CHUNK_BYTES):
            yield part[begin : begin + _CHUNK_BYTES]


class _File:
    """A new file, written past the system's cache as long as blocks are whole: the copy into the cache, and getting
    memory for it, takes many times the processor time of the rest, which the training would miss."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._is_direct = _DIRECT != 0
        try:
            self.descriptor = os.open(path, flags | _DIRECT, 0o600)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self._is_direct = False  # not every file system has it
            self.descriptor = os.open(path, flags, 0o600)

    def write(self, chunk: memoryview) -> None:
        """Write all of `chunk`."""
        while len(chunk):
            whole = len(chunk) // _BLOCK_BYTES * _BLOCK_BYTES
            if self._is_direct and (not whole or _address(chunk) % _BLOCK_BYTES):
                self._go_through_cache()
            try:
                chunk = chunk[os.write(self.descriptor, chunk[:whole] if self._is_direct else chunk) :]
            except OSError as error:
                if error.errno != errno.EINVAL or not self._is_direct:
                    raise
                self._go_through_cache()

    def _go_through_cache(self) -> None:
        self._is_direct = False
        fcntl.fcntl(self.descriptor, fcntl.F_SETFL, fcntl.fcntl(self.descriptor, fcntl.F_GETFL) & ~_DIRECT)


def _address(chunk: memoryview) -> int:
    return np.frombuffer(chunk, dtype=np.uint8).ctypes.data
