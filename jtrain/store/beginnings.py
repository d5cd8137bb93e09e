"""From which state an attempt went on, and so what of the earlier attempts' metrics still counts.

The supervisor's journal says which checkpoint it meant; the attempt itself says which it found good, and whose it was.
Times are only compared within the attempt that wrote the checkpoint: a clock may have been set back since.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jtrain.domain.checkpoints import Position
from jtrain.store.files import read_json, write_atomic
from jtrain.store.paths import AttemptPaths


@dataclass(frozen=True)
class Start:
    """Where an attempt began: `step` and `time` (UTC epoch seconds) of its checkpoint, None for the very beginning.

    `attempt` is the one that wrote the checkpoint: 0 for another run's, None when that is unknown.
    """

    step: int | None = None
    time: float | None = None
    attempt: int | None = None

    def keeps(self, earlier: int) -> Literal["all", "some", "none"]:
        """How much still counts of what attempt `earlier` logged; some: what it logged until `time` (or `step`)."""
        if self.attempt is not None and self.attempt != earlier:
            return "all" if earlier < self.attempt else "none"
        return "none" if self.time is None and self.step is None else "some"


FROM_THE_BEGINNING = Start()


def note_start(paths: AttemptPaths, run_id: str, position: Position) -> None:
    """Write down that the attempt goes on from `position`. Raises OSError."""
    if not position.time:
        return  # a checkpoint that an earlier version wrote
    attempt = position.attempt if position.run == run_id else 0
    write_atomic(paths.went_on, json.dumps({"step": position.step, "time": position.time, "attempt": attempt}))


def read_start(paths: AttemptPaths, said: Mapping[str, Any]) -> Start:
    """How the attempt began, of which the journal has `said` (the data of its "starting" event)."""
    return read_noted_start(paths) or Start(said.get("resume_step"), said.get("resume_time"))


def read_noted_start(paths: AttemptPaths) -> Start | None:
    """What the attempt wrote down, None when it didn't or that can't be read."""
    try:
        record = read_json(paths.went_on)
        return None if record is None else Start(int(record["step"]), float(record["time"]), int(record["attempt"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
