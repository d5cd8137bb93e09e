"""Pure: which checkpoints are removed after a newer one was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Protocol


class Kept(Protocol):
    """What is looked at of a checkpoint; `time` in UTC epoch seconds, `metrics` their latest values then."""

    @property
    def name(self) -> str: ...
    @property
    def time(self) -> float: ...
    @property
    def is_pinned(self) -> bool: ...
    @property
    def metrics(self) -> Mapping[str, float]: ...


@dataclass(frozen=True)
class Retention:
    """The newest `last`, the `best` by `metric` (its largest or smallest value), one for every `every_s` seconds."""

    last: int = 3
    metric: str = ""
    is_max: bool = False
    best: int = 1
    every_s: float | None = None


def superfluous(found: Sequence[Kept], retention: Retention) -> list[str]:
    """The names that may go, of checkpoints in the order in which they were written. Pinned ones never may."""
    pinned = {info.name for info in found if info.is_pinned}
    others = [info for info in found if not info.is_pinned]
    newest = {info.name for info in others[-retention.last :]}
    keep = pinned | newest | set(_best(found, retention)) | set(_spaced(found, retention.every_s))
    return [info.name for info in found if info.name not in keep]


def _best(found: Sequence[Kept], retention: Retention) -> Iterable[str]:
    """Of equal ones the older: what was there first isn't given up for what is no better."""
    if not retention.metric:
        return ()
    sign = -1.0 if retention.is_max else 1.0
    rated = [
        (sign * value, number, info.name)
        for number, info in enumerate(found)
        if not isnan(value := info.metrics.get(retention.metric, float("nan")))
    ]
    return [name for *_, name in sorted(rated)[: retention.best]]


def _spaced(found: Sequence[Kept], every_s: float | None) -> Iterable[str]:
    """The first one, and then always the first that is at least `every_s` younger than the last of these."""
    if every_s is None:
        return
    last: float | None = None
    for info in found:
        if last is None or info.time - last >= every_s:
            last = info.time
            yield info.name
