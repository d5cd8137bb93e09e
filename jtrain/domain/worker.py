"""What a supervisor tells a rank when it starts it, and how a rank answers by ending."""

from __future__ import annotations

from dataclasses import dataclass

EXIT_FINISHED = 0
EXIT_FAILED = 1
EXIT_PAUSED = 75
"""A rank that ended after a pause checkpoint (EX_TEMPFAIL of sysexits.h: try again later)."""


@dataclass(frozen=True)
class WorkerContext:
    """One rank of one attempt. `resume_from` names a checkpoint folder of the run, or is None for a fresh start."""

    run_root: str
    attempt: int
    rank: int
    local_rank: int
    world_size: int
    resume_from: str | None = None
