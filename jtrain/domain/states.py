"""The states of a run, the moves between them, and the fold over a journal.

    queued ─► starting ─► running ─► finished
      │  ▲       │  ▲        │ ▲
      │  │       │  └────────┤ │ pause refused
      │  │       │  restart  ▼ │
      │  │       │        pausing ─► paused ─┐
      │  └───────┼───────────────────────────┤ resume
      ▼          ▼                           │
    stopped   failed ────────────────────────┘

Any state that isn't final may become `failed` or `stopped`. `paused`, `failed` and
`stopped` runs go back to `queued` when they are resumed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """Where a run stands."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"


_NAMES = frozenset(state.value for state in State)

ALIVE = frozenset({State.QUEUED, State.STARTING, State.RUNNING, State.PAUSING})
"""States in which a supervisor must hold the run's lock."""

RESUME_TOKEN = "JTRAIN_RESUME_TOKEN"
"""The environment variable by which a supervisor knows who resumed its run."""

RESUMABLE = frozenset({State.PAUSED, State.FAILED, State.STOPPED})

_MOVES: dict[State | None, frozenset[State]] = {
    None: frozenset({State.QUEUED}),
    State.QUEUED: frozenset({State.STARTING, State.PAUSED, State.FAILED, State.STOPPED}),
    State.STARTING: frozenset(
        {State.RUNNING, State.STARTING, State.PAUSING, State.FAILED, State.STOPPED, State.FINISHED, State.PAUSED}
    ),
    State.RUNNING: frozenset(
        {State.PAUSING, State.FINISHED, State.FAILED, State.STOPPED, State.STARTING, State.PAUSED}
    ),
    State.PAUSING: frozenset({State.PAUSED, State.RUNNING, State.FINISHED, State.FAILED, State.STOPPED}),
    State.PAUSED: frozenset({State.QUEUED, State.STOPPED}),
    State.FAILED: frozenset({State.QUEUED}),
    State.STOPPED: frozenset({State.QUEUED}),
    State.FINISHED: frozenset(),
}


def may_move(before: State | None, after: State, *, owner_lost: bool = False) -> bool:
    """Whether a run may go from `before` to `after`; one whose supervisor died may be queued from any living state."""
    if owner_lost and before in ALIVE:
        return after in {State.QUEUED, State.STOPPED, State.FAILED}
    return after in _MOVES[before]


@dataclass(frozen=True)
class Event:
    """One fact of a run: its number in the journal (from 1), UTC epoch seconds, kind, and what belongs to it."""

    number: int
    time: float
    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> State | None:
        """The state this event moves the run to, or None for a fact that changes no state."""
        return State(self.kind) if self.kind in _NAMES else None

    @property
    def reason(self) -> str:
        """Why, in a sentence; may be empty."""
        return str(self.data.get("reason", ""))


@dataclass(frozen=True)
class Standing:
    """What a journal says about a run at one moment. `priority` is None unless it was changed after the launch.

    `gpus` and `nproc` are what it was last resumed with; where `gpus` is None, it has those of its launch.
    """

    state: State = State.QUEUED
    reason: str = ""
    since: float = 0.0
    created: float = 0.0
    started: float | None = None
    ended: float | None = None
    attempt: int = 0
    devices: tuple[str, ...] = ()
    priority: int | None = None
    gpus: str | None = None
    nproc: int | None = None
    last_event: int = 0


def fold(events: Iterable[Event]) -> Standing:
    """The standing that a run's events, in order, add up to; a damaged one that makes no sense is passed over."""
    standing = Standing()
    for event in events:
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
            standing = advance(standing, event)
    return standing


def advance(standing: Standing, event: Event) -> Standing:
    """The standing after one more event."""
    changes: dict[str, Any] = {"last_event": event.number}
    state = event.state
    if not standing.created:
        changes["created"] = event.time
    if state is not None:
        changes |= {"state": state, "reason": event.reason, "since": event.time}
        changes["ended"] = None if state in ALIVE else event.time
        if state is State.STARTING:
            changes["attempt"] = int(event.data.get("attempt", standing.attempt + 1))
            changes["devices"] = tuple(str(device) for device in event.data.get("devices", ()))
            changes["started"] = standing.started or event.time
    elif event.kind == "waiting":
        changes["reason"] = event.reason
    elif event.kind == "priority":
        changes["priority"] = int(event.data["priority"])
    elif event.kind == "devices":
        changes |= {"gpus": str(event.data["gpus"]), "nproc": event.data["nproc"]}
    return Standing(**{**standing.__dict__, **changes})
