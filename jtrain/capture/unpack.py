"""Brings captured values into a worker, and results back into the notebook, without copying their big buffers."""

from __future__ import annotations

import io
import json
import mmap
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jtrain.capture.lookup import notebook_namespace
from jtrain.errors import CaptureError


@dataclass(frozen=True)
class Captured:
    """What came out of a payload: the values by name, and the texts of the notebook cells they are defined in."""

    values: dict[str, Any]
    sources: dict[str, str]


def unpack(payload: Path, main: dict[str, Any]) -> Captured:
    """Load a payload into the namespace `main`.

    Arrays and tensors are mapped from the file, privately: they can be written to, nobody else sees that, and only
    pages that are touched take memory. Raises CaptureError for a payload that is incomplete.
    """
    index, unpickler = _open(payload)
    values = {}
    for name in (*index["names"], *index["found"]):
        values[name] = main[name] = unpickler.load()
    return Captured(values, index["sources"])


def load_result(folder: Path, main: dict[str, Any]) -> dict[str, Any]:
    """The values of a result folder. Classes of the notebook are looked up in `main`.

    Raises CaptureError when the folder is incomplete, or when the notebook no longer has a class that is needed.
    """
    index, unpickler = _open(folder)
    with notebook_namespace(main):
        return {name: unpickler.load() for name in index["names"]}


def _open(folder: Path) -> tuple[dict[str, Any], pickle.Unpickler]:
    try:
        index = json.loads((folder / "index.json").read_bytes())
        data = (folder / "values.pkl").read_bytes()
        size = (folder / "buffers.bin").stat().st_size
    except (OSError, ValueError) as error:
        raise CaptureError(f"{folder} is incomplete: {error}") from error
    if len(data) != index["values_bytes"] or size < index["buffers_bytes"]:
        raise CaptureError(f"{folder} is incomplete: {len(data) + size} of its bytes are there; start the run again")
    return index, pickle.Unpickler(io.BytesIO(data), buffers=_map(folder / "buffers.bin", index["buffers"]))


def _map(path: Path, places: list[list[int]]) -> Iterator[memoryview]:
    if not places:
        return iter(())
    with open(path, "rb") as file:
        # A private mapping: writable memory that never reaches the file.
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    return iter([view[start : start + size] for start, size in places])
