"""Captures what a cell uses: one file of objects, one of big buffers that every rank maps, and an index."""

from __future__ import annotations

import io
import json
import linecache
import mmap
import os
import pickle
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import xxhash

from jtrain.capture.pickling import IN_BAND_BYTES, Pickler, size_of
from jtrain.capture.refusing import Refusal, find_refusal, refuse
from jtrain.errors import CaptureError, nearest

PAGE_BYTES = mmap.PAGESIZE
_CHUNK_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class NameInfo:
    """A captured variable: its type, what it adds to the payload in bytes, the line where the cell uses it."""

    type: str
    size_bytes: int
    line: int


@dataclass(frozen=True)
class Manifest:
    """What was captured. `digest`: xxh3-128 over everything, hexadecimal."""

    names: dict[str, NameInfo]
    digest: str
    total_bytes: int


class Buffers:
    """Takes the big buffers of a pickle; writes them to `file`, each at a page of its own, or only counts them."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file
        self.places: list[tuple[int, int]] = []
        self.end = 0
        self.digest = xxhash.xxh3_128()

    def take(self, buffer: pickle.PickleBuffer) -> bool:
        """A callback of pickle: true keeps the buffer inside the pickle."""
        size = size_of(buffer)
        if size < IN_BAND_BYTES:
            return True
        start = -(-self.end // PAGE_BYTES) * PAGE_BYTES
        if self._file is not None:
            self._write(buffer.raw(), start)
        self.places.append((start, size))
        self.end = start + size
        return False

    def _write(self, view: memoryview, start: int) -> None:
        assert self._file is not None
        descriptor = self._file.fileno()
        for offset in range(0, view.nbytes, _CHUNK_BYTES):
            chunk = view[offset : offset + _CHUNK_BYTES]
            self.digest.update(chunk)
            place = start + offset
            while chunk:
                written = os.pwrite(descriptor, chunk, place)
                chunk, place = chunk[written:], place + written


def pack(
    namespace: Mapping[str, object],
    names: Mapping[str, int],
    target: Path,
    *,
    extra: Iterable[str] = (),
    provided: Iterable[str] = ("run",),
) -> Manifest:
    """Write what the cell uses into the new folder `target`.

    `names`: what the cell reads, with the line where it does; names that the notebook doesn't have are left out.
    `extra`: names to capture besides. Functions of the notebook come with the globals they use. A tensor that is the
    result of a computation that tracks gradients arrives as a leaf. Raises CaptureError naming every variable that can't travel.
    """
    wanted = _choose(namespace, names, extra, provided)
    target.mkdir()
    try:
        return _write(namespace, wanted, target)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def plan(
    namespace: Mapping[str, object],
    names: Mapping[str, int],
    *,
    extra: Iterable[str] = (),
    provided: Iterable[str] = ("run",),
) -> Manifest:
    """What `pack` would capture, and how large it is, without writing anything."""
    wanted = _choose(namespace, names, extra, provided)
    stream, buffers = io.BytesIO(), Buffers(None)
    infos, _ = _dump(namespace, wanted, stream, buffers)
    return Manifest(infos, "", stream.tell() + buffers.end)


def _choose(
    namespace: Mapping[str, object], names: Mapping[str, int], extra: Iterable[str], provided: Iterable[str]
) -> dict[str, int]:
    skipped = set(provided)
    wanted = {name: line for name, line in names.items() if name in namespace and name not in skipped}
    for name in ("display", "exit", "quit"):
        if name in wanted and _is_ipythons(namespace[name]):
            del wanted[name]
    for name in extra:
        if name not in namespace:
            guess = nearest(name, [key for key in namespace if not key.startswith("_")])
            raise CaptureError(
                f"-i {name}: the notebook has no such variable" + (f"; did you mean {guess}?" if guess else "")
            )
        wanted.setdefault(name, 0)
    return wanted


def _is_ipythons(value: object) -> bool:
    return str(getattr(value, "__module__", "")).startswith("IPython") or type(value).__module__.startswith("IPython")


def _write(namespace: Mapping[str, object], wanted: dict[str, int], target: Path) -> Manifest:
    stream = io.BytesIO()
    with open(target / "buffers.bin", "wb", buffering=0) as file:
        buffers = Buffers(file)
        infos, pickler = _dump(namespace, wanted, stream, buffers)
        found = {name: value for name, value in pickler.found.items() if name not in infos}
        for value in found.values():
            pickler.dump(value)
    size = write_index(
        target, stream, buffers, names=list(infos), found=list(found), sources=_sources(pickler.code_files)
    )
    return Manifest(infos, buffers.digest.hexdigest(), size)


def write_index(
    target: Path,
    stream: io.BytesIO,
    buffers: Buffers,
    *,
    names: list[str],
    found: Sequence[str] = (),
    sources: Mapping[str, str] | None = None,
) -> int:
    """Write the pickles and the index of a payload, whose buffers are there; returns its size in bytes."""
    data = stream.getbuffer()
    (target / "values.pkl").write_bytes(data)
    buffers.digest.update(data)
    index = {
        "names": names,
        "found": list(found),
        "buffers": buffers.places,
        "values_bytes": data.nbytes,
        "buffers_bytes": buffers.end,
        "sources": dict(sources or {}),
    }
    (target / "index.json").write_text(json.dumps(index))
    return data.nbytes + buffers.end


def _dump(
    namespace: Mapping[str, object], wanted: dict[str, int], stream: io.BytesIO, buffers: Buffers
) -> tuple[dict[str, NameInfo], Pickler]:
    """One pickle after the other from one pickler, so that what two variables share stays shared."""
    pickler = Pickler(stream, _namespaces(namespace), buffers.take)
    infos: dict[str, NameInfo] = {}
    refused: list[Refusal] = []
    for name, line in wanted.items():
        before = stream.tell() + buffers.end
        value = namespace[name]
        try:
            if (refusal := find_refusal(name, value, line)) is not None:
                refused.append(refusal)
                continue
            pickler.dump(value)
        except RecursionError:
            refused.append(Refusal(name, line, name, type(value).__name__, "it is nested too deeply; flatten it"))
            continue
        except Exception as error:  # noqa: BLE001 - whatever an object's own reduction raises, the variable is named
            refused.append(refuse(name, value, line, pickler.last, error))
            stream.truncate(before - buffers.end if before >= buffers.end else 0)
            pickler = Pickler(stream, _namespaces(namespace), buffers.take)
            continue
        infos[name] = NameInfo(type(value).__name__, stream.tell() + buffers.end - before, line)
    if refused:
        raise CaptureError(_message(refused))
    return infos, pickler


def _namespaces(namespace: Mapping[str, object]) -> list[Mapping[str, object]]:
    main = sys.modules["__main__"].__dict__
    return [namespace] if main is namespace else [namespace, main]


def _message(refused: list[Refusal]) -> str:
    head = (
        "this can't be sent to the workers:"
        if len(refused) == 1
        else f"{len(refused)} variables can't be sent to the workers:"
    )
    return "\n".join([head, *(f"  {refusal}" for refusal in refused)])


def _sources(files: set[str]) -> dict[str, str]:
    """The texts of notebook cells, which exist in no file, so that a worker's traceback can show their lines."""
    texts = {}
    for name in files:
        entry = linecache.cache.get(name)
        if entry is not None and len(entry) > 2:
            texts[name] = "".join(entry[2])
    return texts
