"""Checksums of files."""

from __future__ import annotations

from pathlib import Path

import xxhash

_CHUNK_BYTES = 8 * 1024 * 1024


def digest_of(path: Path) -> str:
    """xxh3-128 of the file's content, hexadecimal. Raises OSError."""
    state = xxhash.xxh3_128()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            state.update(chunk)
    return state.hexdigest()
