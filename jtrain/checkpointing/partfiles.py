"""Writes a rank's part of a checkpoint: its tensors as a safetensors file, the rest beside it.

The file is written here and not by the safetensors library, which reads it: the bytes are hashed on their way, and
Python's lock is free meanwhile, so that the training goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import xxhash

from jtrain.checkpointing.staging import Placed, Staged
from jtrain.domain.checkpoints import FileEntry, part_files

_CHUNK_BYTES = 8 << 20
"""Hashed and then written while it is still in the processor's cache."""

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
    """The header of a safetensors file: its length in 8 bytes, little-endian, then JSON.
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
    text += b" " * (-len(text) % 8)
    return memoryview(len(text).to_bytes(8, "little") + text)


def _write(path: Path, parts: list[memoryview]) -> FileEntry:
    digest, size = xxhash.xxh3_128(), 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        for chunk in _chunks(parts):
            digest.update(chunk)
            _write_all(descriptor, chunk)
            size += len(chunk)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return FileEntry(size_bytes=size, digest=digest.hexdigest())


def _chunks(parts: list[memoryview]) -> Iterator[memoryview]:
    for part in parts:
        for begin in range(0, len(part), _CHUNK_BYTES):
            yield part[begin : begin + _CHUNK_BYTES]


def _write_all(descriptor: int, chunk: memoryview) -> None:
    while len(chunk):
        chunk = chunk[os.write(descriptor, chunk) :]
