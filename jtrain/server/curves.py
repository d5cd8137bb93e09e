"""Series of a run over all its attempts: merged without copying, thinned out, and read on from a cursor."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from jtrain.domain.messages import Cursor, PointsRow, SeriesRow, Value
from jtrain.domain.states import Event, State
from jtrain.store.beginnings import Start, read_noted_start
from jtrain.store.paths import RunPaths
from jtrain.store.series import Points, SeriesReader, downsample

MOST_POINTS = 2000
"""Points of one metric in one message."""

_FEWEST_POINTS = 8
_SCANNED = 1_000_000
"""Up to this many points are searched one by one, beyond it as sorted ones."""

Axis = Literal["step", "time"]


@dataclass(frozen=True)
class Part:
    """What one attempt logged of a metric. Only the first `kept` points still count: the rest was done again later."""

    attempt: int
    points: Points
    kept: int


def read_starts(events: list[Event]) -> dict[int, Start]:
    """How each attempt began, by its number, as the journal has it."""
    starts = {}
    for event in events:
        if event.state is State.STARTING:
            data = event.data
            starts[int(data["attempt"])] = Start(data.get("resume_step"), data.get("resume_time"))
    return starts


class RunCurves:
    """The series of one run, as rank 0 logged them. For one thread at a time."""

    def __init__(self, paths: RunPaths, starts: dict[int, Start]) -> None:
        self._paths = paths
        self._readers: dict[int, SeriesReader] = {}
        self._noted: dict[int, Start] = {}
        self.starts: dict[int, Start] = {}
        self.update(starts)

    def update(self, starts: dict[int, Start]) -> None:
        """Take in the attempts there are now."""
        self.starts = starts
        for number in sorted(starts):
            if number not in self._readers:
                self._readers[number] = SeriesReader(self._paths.attempt(number).metrics(0))

    @property
    def latest(self) -> int:
        """The number of the latest attempt, 0 before the first."""
        return max(self._readers, default=0)

    def reader(self, attempt: int) -> SeriesReader | None:
        """The series of one attempt."""
        return self._readers.get(attempt)

    def names(self) -> list[str]:
        """All metrics, in order of appearance."""
        return list(dict.fromkeys(name for number in sorted(self._readers) for name in self._readers[number].names()))

    def parts(self, name: str) -> list[Part]:
        """What each attempt logged, oldest first, and how much of it counts."""
        points = {number: self._readers[number].read(name) for number in sorted(self._readers)}
        kept = self._kept(points, self.latest)
        return [Part(number, points[number], kept[number]) for number in points]

    def _kept(self, points: dict[int, Points], until: int) -> dict[int, int]:
        """How much of each attempt counted when attempt `until` was the latest."""
        kept = {number: len(found) for number, found in points.items() if number <= until}
        for number in kept:
            start = self._start(number)
            for earlier in (other for other in kept if other < number):
                kept[earlier] = min(kept[earlier], _count_kept(points[earlier], start, earlier))
        return kept

    def _start(self, number: int) -> Start:
        """How an attempt began, as it noted itself where it did."""
        if number not in self._noted:
            noted = read_noted_start(self._paths.attempt(number))
            if noted is None:
                return self.starts[number]
            self._noted[number] = noted
        return self._noted[number]

    def end(self, name: str) -> Cursor:
        """The cursor of a reader that has everything."""
        reader = self._readers.get(self.latest)
        return {"attempt": self.latest, "count": reader.count(name) if reader else 0}

    def row(
        self, name: str, max_points: int, axis: Axis = "step", ends: tuple[float, float] | None = None
    ) -> SeriesRow:
        """The curve between `ends` (all when None), of at most `max_points`."""
        parts = self.parts(name)
        found = [part.points[: part.kept] for part in parts]
        if ends is not None:
            found = [window(points, axis, *ends) for points in found]
        count = sum(map(len, found))
        thinned = thin(found, max_points)
        latest = parts[-1] if parts else None
        cursor: Cursor = (
            {"attempt": latest.attempt, "count": len(latest.points)} if latest else {"attempt": 0, "count": 0}
        )
        return {
            "name": name,
            "steps": thinned["step"].tolist(),
            "times": thinned["time"].tolist(),
            "values": to_values(thinned["value"]),
            "count": count,
            "is_whole": len(thinned) == count,
            "cursor": cursor,
        }

    def follow(self, name: str, cursor: Cursor | None) -> tuple[bool, list[PointsRow]]:
        """What comes after `cursor` (None: everything). Whether the reader has points that don't count any more: then
        there is nothing else to tell and it has to begin anew."""
        if cursor is not None and cursor["attempt"] == self.latest:
            reader = self._readers.get(self.latest)
            new = reader.read(name, cursor["count"]) if reader else _NONE
            return False, [_row(name, new, cursor, self.latest, cursor["count"])] if len(new) else []
        parts = self.parts(name)
        if cursor is not None and self._holds_undone(parts, cursor):
            return True, []
        return False, list(_rows(name, parts, cursor or {"attempt": 0, "count": 0}))

    def _holds_undone(self, parts: list[Part], cursor: Cursor) -> bool:
        """Whether a reader that has got as far as `cursor` has points that were done again since."""
        before = self._kept({part.attempt: part.points for part in parts}, cursor["attempt"])
        before |= {cursor["attempt"]: cursor["count"]}
        return any(part.kept < before.get(part.attempt, 0) for part in parts)


def _rows(name: str, parts: list[Part], after: Cursor) -> Iterator[PointsRow]:
    """A row for each attempt that has something after the cursor, and one for having come to the latest attempt."""
    for part in parts:
        if part.attempt < after["attempt"]:
            continue
        start = after["count"] if part.attempt == after["attempt"] else 0
        points = part.points[start : part.kept]
        if len(points) or part.attempt != after["attempt"]:
            yield (row := _row(name, points, after, part.attempt, start))
            after = row["cursor"]


def _row(name: str, points: Points, after: Cursor, attempt: int, start: int) -> PointsRow:
    cursor: Cursor = {"attempt": attempt, "count": start + len(points)}
    thinned = thin([points], MOST_POINTS)
    return {
        "name": name,
        "after": after,
        "cursor": cursor,
        "steps": thinned["step"].tolist(),
        "times": thinned["time"].tolist(),
        "values": to_values(thinned["value"]),
    }


def thin(parts: list[Points], max_points: int) -> Points:
    """`parts` in a row, together at most about `max_points`; each keeps its extremes."""
    total = sum(map(len, parts))
    if total > max_points:
        shares = [max(_FEWEST_POINTS, max_points * len(points) // total) for points in parts]
        parts = [downsample(points, share) for points, share in zip(parts, shares, strict=True)]
    parts = [points for points in parts if len(points)]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else _NONE


_NONE = cast(Points, np.empty(0, [("step", "<i8"), ("time", "<f8"), ("value", "<f8")]))


def window(points: Points, axis: Axis, low: float, high: float) -> Points:
    """Those between `low` and `high`, and one more at each side, so that a line goes on to the edge of the picture."""
    places = points[axis]
    if len(points) <= _SCANNED:
        inside = np.flatnonzero((places >= low) & (places <= high))
        if not len(inside):
            return points[:0]
        start, stop = int(inside[0]), int(inside[-1]) + 1
    else:
        start = bisect.bisect_left(range(len(points)), low, key=lambda index: places[index])
        stop = bisect.bisect_right(range(len(points)), high, key=lambda index: places[index])
    return points[max(0, start - 1) : stop + 1]


def _count_kept(points: Points, start: Start, attempt: int) -> int:
    """How many points of the earlier `attempt` came before the state that a later one began from."""
    share = start.keeps(attempt)
    if share != "some":
        return len(points) if share == "all" else 0
    if start.time is not None:
        return _count_until(points["time"], start.time)
    return _count_until(points["step"], start.step) if start.step is not None else 0


def _count_until(places: npt.NDArray[Any], last: float) -> int:
    if len(places) <= _SCANNED:
        beyond = np.flatnonzero(places > last)
        return int(beyond[0]) if len(beyond) else len(places)
    return bisect.bisect_right(range(len(places)), last, key=lambda index: places[index])


def to_values(values: npt.NDArray[np.float64]) -> list[Value]:
    """Numbers as JSON can carry them."""
    listed = values.tolist()
    return listed if np.isfinite(values).all() else [to_value(value) for value in listed]


def to_value(value: float) -> Value:
    """A number as JSON can carry it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
