"""How far a run is, from the table its ranks share."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from jtrain.store.paths import AttemptPaths
from jtrain.store.ranks import RankRow, RankTable

_WINDOW_S = 10.0
_STALE_S = 60.0


@dataclass(frozen=True)
class Progress:
    """Rank 0's position, and rates over all ranks.

    `step`: optimizer steps; `micro_step`: batches; `epoch` from 0, `batch` in the epoch; totals are 0 when unknown.
    `samples_per_s`, `steps_per_s` (optimizer steps) and `eta_s` are None until there is something to tell.
    """

    step: int = 0
    micro_step: int = 0
    total_steps: int = 0
    epoch: int = 0
    epochs: int = 0
    batch: int = 0
    num_batches: int = 0
    samples: int = 0
    loss: float | None = None
    samples_per_s: float | None = None
    steps_per_s: float | None = None
    eta_s: float | None = None
    heartbeat: float = 0.0

    @property
    def fraction(self) -> float | None:
        """Share of the batches that are done, 0 to 1, or None when their number is unknown."""
        total = self.epochs * self.num_batches
        return min(1.0, (self.epoch * self.num_batches + self.batch) / total) if total else None


@dataclass(frozen=True)
class _Snapshot:
    clock: float
    micro_step: int
    step: int
    samples: int


class ProgressMeter:
    """Reads an attempt's table again and again; its rates cover the last ten seconds of the reader's own clock.

    That clock stands still while a laptop sleeps, so an hour asleep is not taken for slow training.
    """

    def __init__(self, attempt: AttemptPaths) -> None:
        self._attempt = attempt
        self._table: RankTable | None = None
        self._seen: deque[_Snapshot] = deque()

    def read(self) -> Progress:
        """The progress now; an empty one when the ranks have not started."""
        if self._table is None:
            try:
                self._table = RankTable.open(self._attempt.ranks, writable=False)
            except (OSError, ValueError):
                return Progress()
        rows = [self._table.row(rank) for rank in range(self._table.world_size)]
        now = _Snapshot(time.monotonic(), rows[0].micro_step, rows[0].step, sum(row.samples for row in rows))
        self._seen.append(now)
        while len(self._seen) > 2 and now.clock - self._seen[1].clock > _WINDOW_S:
            self._seen.popleft()
        return _progress(rows, self._rates(rows, now))

    def _rates(self, rows: list[RankRow], now: _Snapshot) -> tuple[float, float, float] | None:
        """Batches, optimizer steps and samples per second."""
        first = self._seen[0]
        seconds = now.clock - first.clock
        if seconds >= 2.0 and now.micro_step > first.micro_step:
            return (
                (now.micro_step - first.micro_step) / seconds,
                (now.step - first.step) / seconds,
                (now.samples - first.samples) / seconds,
            )
        row = rows[0]
        seconds = row.heartbeat - row.loop_started
        batches = row.micro_step - row.loop_micro_step
        is_fresh = row.done or time.time() - row.heartbeat < _STALE_S
        if not row.loop_started or seconds <= 0 or batches <= 0 or not is_fresh:
            return None
        samples = sum(other.samples - other.loop_samples for other in rows)
        steps = row.step * batches / max(row.micro_step, 1)
        return batches / seconds, steps / seconds, samples / seconds


def _progress(rows: list[RankRow], rates: tuple[float, float, float] | None) -> Progress:
    row = rows[0]
    left = row.epochs * row.num_batches - (row.epoch * row.num_batches + row.batch)
    eta_s = left / rates[0] if rates and rates[0] > 0 and row.num_batches and left >= 0 else None
    return Progress(
        step=row.step,
        micro_step=row.micro_step,
        total_steps=row.total_steps,
        epoch=row.epoch,
        epochs=row.epochs,
        batch=row.batch,
        num_batches=row.num_batches,
        samples=sum(other.samples for other in rows),
        loss=row.loss if row.micro_step else None,
        samples_per_s=rates[2] if rates else None,
        steps_per_s=rates[1] if rates else None,
        eta_s=eta_s,
        heartbeat=row.heartbeat,
    )
