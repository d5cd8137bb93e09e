"""What a run has logged, over all its attempts: the table behind `run.metrics`."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jtrain.errors import nearest
from jtrain.store.beginnings import FROM_THE_BEGINNING, Start
from jtrain.store.series import POINT, Points, SeriesReader

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class AttemptSeries:
    """Where the series of attempt `number` are, and where it went on from."""

    number: int
    folder: Path
    start: Start = FROM_THE_BEGINNING


def merge_attempts(parts: Sequence[tuple[int, Points, Start]]) -> Points:
    """One metric's points over the attempts of a run; each part is an attempt's number, points and start.

    What an earlier attempt logged after the state that a later one resumed from is done again, so it is left out:
    by time where that is known (a metric's own steps may count anything, say epochs), else by step.
    An attempt that started from the beginning replaces all before it.
    """
    merged: list[tuple[int, Points]] = []
    for number, points, start in parts:
        merged = [(earlier, _kept(found, start, earlier)) for earlier, found in merged]
        merged.append((number, points))
    full = [points for _, points in merged if len(points)]
    if len(full) > 1:
        return np.concatenate(full)
    return full[0] if full else np.empty(0, POINT)


def _kept(points: Points, start: Start, attempt: int) -> Points:
    """What still counts of an earlier attempt's points, now that one began at `start`."""
    share = start.keeps(attempt)
    if share == "all":
        return points
    if share == "none":
        return points[:0]
    return points[points["time"] <= start.time] if start.time is not None else points[points["step"] <= start.step]


class MetricTable:
    """The metrics of a run, read when asked for: a running run's table grows.

    Like a DataFrame: `table["loss"]` are the values of a column, `table.columns` the names, `len(table)` the number
    of rows (distinct steps), and `for name in table` goes over the columns.
    """

    def __init__(self, attempts: Sequence[AttemptSeries]) -> None:
        self._attempts = list(attempts)
        self._readers = [SeriesReader(attempt.folder) for attempt in self._attempts]

    @property
    def columns(self) -> list[str]:
        """Names of the metrics, in order of appearance."""
        return list(dict.fromkeys(name for reader in self._readers for name in reader.names()))

    def keys(self) -> list[str]:
        """The same as `columns`, so that `dict(table)` works."""
        return self.columns

    def points(self, name: str) -> Points:
        """The metric's records (step, time, value) in the order in which they were logged.

        Raises KeyError, with the nearest name, when the run has logged no such metric.
        """
        if name not in self:
            close = nearest(name, self.columns)
            hint = f"; did you mean {close!r}?" if close else f"; there are: {self.columns}"
            raise KeyError(f"no metric {name!r} has been logged{hint}")
        return merge_attempts(
            [
                (attempt.number, reader.read(name), attempt.start)
                for reader, attempt in zip(self._readers, self._attempts, strict=True)
            ]
        )

    def __getitem__(self, name: str) -> npt.NDArray[np.float64]:
        return np.ascontiguousarray(self.points(name)["value"])

    def steps(self, name: str) -> npt.NDArray[np.int64]:
        """The step of each value of the metric."""
        return np.ascontiguousarray(self.points(name)["step"])

    def times(self, name: str) -> npt.NDArray[np.float64]:
        """When each value was logged, in UTC epoch seconds."""
        return np.ascontiguousarray(self.points(name)["time"])

    def last(self, name: str) -> float:
        """The value logged last; NaN when an attempt that started anew has not logged the metric yet."""
        values = self[name]
        return float(values[-1]) if len(values) else float("nan")

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self._index([self.points(name) for name in self.columns]))

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame with a row per step and a column per metric; of values logged for the same step the last one.

        Raises ImportError when pandas isn't installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("run.metrics.to_pandas() needs pandas: pip install pandas") from error
        points = {name: self.points(name) for name in self.columns}
        index = self._index(list(points.values()))
        columns = {name: _aligned(series, index) for name, series in points.items()}
        return pandas.DataFrame(columns, index=pandas.Index(index, name="step"))

    @staticmethod
    def _index(series: list[Points]) -> npt.NDArray[np.int64]:
        """The distinct steps, ascending."""
        steps = [np.unique(points["step"]) for points in series]
        return np.unique(np.concatenate(steps)) if steps else np.empty(0, np.int64)

    def _summary(self) -> list[list[str]]:
        """A row per metric: name, number of points, last step, last value, lowest, highest."""
        rows = []
        for name in self.columns:
            points = self.points(name)
            values = points["value"]
            finite = values[np.isfinite(values)]
            ends = [finite.min(), finite.max()] if len(finite) else [np.nan, np.nan]
            last = [str(points["step"][-1]), f"{values[-1]:.6g}"] if len(points) else ["", ""]
            rows.append([name, str(len(points)), *last, *(f"{end:.6g}" for end in ends)])
        return rows

    def __repr__(self) -> str:
        rows = [[_one_line(cell) for cell in row] for row in [_HEADINGS, *self._summary()]]
        if len(rows) == 1:
            return "no metrics logged yet"
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
        return "\n".join(
            "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
            for row in rows
        )

    def _repr_html_(self) -> str:
        rows = self._summary()
        if not rows:
            return "<em>no metrics logged yet</em>"
        head = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


_HEADINGS = ["metric", "points", "last step", "last", "min", "max"]


def _one_line(text: str, width: int = 60) -> str:
    """`text` without control characters, cut in the middle when it is longer than `width`."""
    text = "".join(character if character.isprintable() else " " for character in text)
    return text if len(text) <= width else f"{text[: width // 2]}…{text[-(width // 2 - 1) :]}"


def _aligned(points: Points, index: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The values of `points` at the steps in `index`; NaN where there is none, the last where there are several."""
    values = np.full(len(index), np.nan)
    # Assigning to a repeated index keeps the last value assigned.
    values[np.searchsorted(index, points["step"])] = points["value"]
    return values
