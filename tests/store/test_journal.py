"""Facts are numbered, survive torn lines, and add up to a state."""

from __future__ import annotations

from pathlib import Path

import pytest

from jtrain.domain.states import State
from jtrain.store.journal import Journal, read_events, read_standing


def test_events_are_numbered_and_fold_to_the_last_state(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write("queued", reason="created")
    journal.write("waiting", reason="for a GPU")
    journal.write("starting", attempt=1, devices=["CPU-0"])
    journal.write("running")
    assert [event.number for event in read_events(journal.path)] == [1, 2, 3, 4]
    standing = read_standing(journal.path)
    assert (standing.state, standing.attempt, standing.devices) == (State.RUNNING, 1, ("CPU-0",))


def test_a_torn_line_is_skipped_and_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(path).write("queued")
    with open(path, "ab") as file:
        file.write(b'{"n": 2, "t": 1.0, "event": "star')
    journal = Journal(path)
    journal.write("starting", attempt=1)
    assert [event.kind for event in read_events(path)] == ["queued", "starting"]


def test_a_move_that_can_not_be_is_refused_and_not_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write("queued")
    with pytest.raises(ValueError, match="queued to running"):
        journal.write("running")
    assert len(read_events(journal.path)) == 1


def test_events_after_a_number_are_only_the_new_ones(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    for kind in ("queued", "starting", "running"):
        journal.write(kind)
    assert [event.kind for event in read_events(journal.path, after=2)] == ["running"]
