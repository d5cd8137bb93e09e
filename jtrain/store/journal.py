"""A run's journal: every fact, numbered, one JSON line each. The run's owner is its only writer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from jtrain.domain.states import ALIVE, Event, Standing, State, advance, fold, may_move
from jtrain.store.files import append_line, read_lines


def to_event(record: dict[str, Any]) -> Event:
    """An event from its JSON record; raises KeyError, TypeError or ValueError for a record that is none."""
    data = {key: value for key, value in record.items() if key not in ("n", "t", "event")}
    return Event(int(record["n"]), float(record["t"]), str(record["event"]), data)


def read_events(path: Path, after: int = 0) -> list[Event]:
    """Events of the journal at `path` with a number above `after`; a torn or damaged line is skipped."""
    events = []
    for record in read_lines(path)[0]:
        try:
            event = to_event(record)
        except (KeyError, TypeError, ValueError):
            continue
        if event.number > after:
            events.append(event)
    return events


def read_standing(path: Path) -> Standing:
    """Where the run stands according to its journal."""
    return fold(read_events(path))


class Journal:
    """The journal, for its one writer.

    A patient one keeps what a full disk or a vanished folder doesn't take, and writes it as soon as it can.
    """

    def __init__(self, path: Path, *, is_patient: bool = False) -> None:
        self.path = path
        self.standing = read_standing(path)
        self._is_patient = is_patient
        self._unwritten: list[tuple[dict[str, Any], bool]] = []

    def write(self, kind: str, *, owner_lost: bool = False, **data: Any) -> Event:
        """Append a fact and return it; one that ends in a state of rest is on the disk then.

        Raises ValueError for a move that can't be, OSError when it isn't patient and can't write.
        """
        event = Event(self.standing.last_event + 1, time.time(), kind, data)
        before = self.standing.state if self.standing.last_event else None
        if event.state is not None and not may_move(before, event.state, owner_lost=owner_lost):
            raise ValueError(f"a run can't go from {before} to {event.state}")
        is_rest = event.state is not None and event.state not in ALIVE
        self._unwritten.append(({"n": event.number, "t": event.time, "event": kind, **data}, is_rest))
        try:
            self._write_all()
        except OSError:
            if not self._is_patient:
                self._unwritten.clear()
                raise
        self.standing = advance(self.standing, event)
        return event

    def catch_up(self) -> OSError | None:
        """Write what couldn't be written before; the reason when that still can't be done."""
        try:
            self._write_all()
        except OSError as error:
            return error
        return None

    def _write_all(self) -> None:
        while self._unwritten:
            record, is_synced = self._unwritten[0]
            append_line(self.path, record, sync=is_synced)
            del self._unwritten[0]

    @property
    def state(self) -> State:
        """The state the run is in."""
        return self.standing.state
