"""Metric series on disk: append-only, readable while they grow, whole after a crash.

A rank's folder holds `names.jsonl` (`{"id": 0, "name": "train/loss"}`, a line per metric in order of
appearance) and for each metric a file `<id>.bin` of 24-byte records: step (int64), UTC epoch seconds
(float64), value (float64), little-endian. Names never become file names, so any name will do.
A record counts once all its bytes are there: a torn tail is skipped by readers and cut off by the next writer.
Whole records are never taken back, so a reader may map a file while it grows.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from jtrain.store.files import append_line, read_lines

POINT = np.dtype([("step", "<i8"), ("time", "<f8"), ("value", "<f8")])
"""One record of a series."""

Points = npt.NDArray[np.void]
"""A one-dimensional array of POINT records."""

_MAP_FROM_BYTES = 4 << 20
"""Series from this size on are memory-mapped instead of copied."""


def as_points(points: Points | Sequence[tuple[int, float, float]]) -> Points:
    """`points` (records, or tuples of step, time, value) as one array of records."""
    return np.asarray(points, dtype=POINT).reshape(-1)


class SeriesWriter:
    """Appends points to the series in `folder`, which has one writer at a time.

    No file stays open between calls: a run may have thousands of metrics, and a fork inherits nothing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ids: dict[str, int] | None = None

    def append(self, name: str, points: Points | Sequence[tuple[int, float, float]]) -> int:
        """Append `points` to the series `name`; returns how many were written.

        Fewer than given are written when the disk fills up on the way; raises OSError when none could be.
        """
        data = as_points(points).tobytes()
        if not data:
            return 0
        descriptor = os.open(self._file(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            return _write_records(descriptor, data) // POINT.itemsize
        finally:
            os.close(descriptor)

    def _file(self, name: str) -> Path:
        if self._ids is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._ids = SeriesReader(self.folder).ids()
        if name not in self._ids:
            new_id = max(self._ids.values(), default=-1) + 1
            append_line(self.folder / "names.jsonl", {"id": new_id, "name": name})
            self._ids[name] = new_id
        return self.folder / f"{self._ids[name]}.bin"


def _write_records(descriptor: int, data: bytes) -> int:
    """Write whole records after the last whole one; returns the bytes written."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    start = size - size % POINT.itemsize
    written = 0
    failure: OSError | None = None
    while written < len(data) and failure is None:
        try:
            written += os.pwrite(descriptor, memoryview(data)[written:], start + written)
        except OSError as error:
            failure = error
    whole = written - written % POINT.itemsize
    if start + whole != max(size, start + written):
        os.ftruncate(descriptor, start + whole)
    if not whole:
        raise failure or OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return whole


class SeriesReader:
    """Reads the series in `folder`, also while they grow; a missing folder has none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ids: dict[str, int] = {}
        self._names_offset = 0

    def ids(self) -> dict[str, int]:
        """Name → id of every metric so far, in order of appearance."""
        records, self._names_offset = read_lines(self.folder / "names.jsonl", self._names_offset)
        for record in records:
            if isinstance(record.get("name"), str) and isinstance(record.get("id"), int):
                self._ids.setdefault(record["name"], record["id"])
        return dict(self._ids)

    def names(self) -> list[str]:
        """Names of every metric so far, in order of appearance."""
        return list(self.ids())

    def count(self, name: str) -> int:
        """How many points the series has now; 0 for an unknown name."""
        try:
            return self._file(name).stat().st_size // POINT.itemsize
        except (FileNotFoundError, KeyError):
            return 0

    def read(self, name: str, since: int = 0) -> Points:
        """Points of the series from index `since` on; empty for an unknown name. Large answers are mapped."""
        count = self.count(name) - since
        if count <= 0:
            return np.empty(0, POINT)
        file, offset = self._file(name), since * POINT.itemsize
        if count * POINT.itemsize >= _MAP_FROM_BYTES:
            return np.memmap(file, POINT, "r", offset, (count,))
        return np.fromfile(file, POINT, count, offset=offset)

    def _file(self, name: str) -> Path:
        if name not in self._ids:
            self.ids()
        return self.folder / f"{self._ids[name]}.bin"


def downsample(points: Points, max_points: int) -> Points:
    """At most `max_points` (8 or more) of `points`, in their order, that draw the same curve.

    The series is cut into equal stretches; of each, the lowest and the highest point stay, and the first NaN and
    the first infinite one where there are such. The first and the last point stay.
    """
    if max_points < 8:
        raise ValueError(f"max_points is {max_points}; it must be 8 or more")
    if len(points) <= max_points:
        return points
    values = np.ascontiguousarray(points["value"])
    kept = _extremes(values, (max_points - 2) // 2)
    if not np.isfinite(values[kept]).all():
        kept = _extremes_and_markers(values, (max_points - 2) // 4)
    return np.asarray(points[np.unique(np.concatenate([kept, [0, len(points) - 1]]))])


Choice = Callable[..., npt.NDArray[np.intp]]
"""np.argmin or np.argmax."""


def _choose(values: npt.NDArray[np.generic], num_stretches: int, choice: Choice) -> npt.NDArray[np.intp]:
    """The index of the chosen value in each of at most `num_stretches` equal stretches; the last may be shorter."""
    length = -(-len(values) // num_stretches)
    rows = values[: len(values) // length * length].reshape(-1, length)
    chosen = np.arange(len(rows)) * length + choice(rows, axis=1)
    if rows.size < len(values):
        chosen = np.append(chosen, rows.size + choice(values[rows.size :]))
    return chosen


def _extremes(values: npt.NDArray[np.float64], num_stretches: int) -> npt.NDArray[np.intp]:
    """Indices of the lowest and highest value of each stretch; by numpy's rule a NaN wins both."""
    return np.concatenate([_choose(values, num_stretches, choice) for choice in (np.argmin, np.argmax)])


def _extremes_and_markers(values: npt.NDArray[np.float64], num_stretches: int) -> npt.NDArray[np.intp]:
    """Indices of each stretch's lowest and highest finite value, first NaN and first infinite value."""
    finite = np.isfinite(values)
    lowest = _choose(np.where(finite, values, np.inf), num_stretches, np.argmin)
    highest = _choose(np.where(finite, values, -np.inf), num_stretches, np.argmax)
    markers = [_choose(mask, num_stretches, np.argmax) for mask in (np.isnan(values), np.isinf(values))]
    return np.concatenate([lowest, highest, *(marks[~finite[marks]] for marks in markers)])
