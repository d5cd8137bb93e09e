"""Rank 0's output on its way to the user."""

from __future__ import annotations

import io

import pytest

from jtrain.store.files import append_line
from jtrain.view import output
from jtrain.view.output import Bounds, OutputFeed
from jtrain.view.plain import PlainView
from jtrain.view.snapshot import SnapshotReader
from tests.doors.stores import make_run

TRACEBACK = 'Traceback (most recent call last):\n  File "x", line 1\nValueError: bad\n'


def test_lines_come_once_and_an_unfinished_one_at_the_end() -> None:
    run = make_run(log="a\nb\n50%\r100%")
    feed = OutputFeed(run)
    assert feed.read() == ["a", "b"]
    assert feed.partial == "100%"
    assert feed.read() == []
    assert feed.finish() == ["100%"]


def test_whoever_comes_later_sees_the_last_lines_only() -> None:
    run = make_run(log="".join(f"{n}\n" for n in range(100)))
    assert OutputFeed(run, seen=0).read() == [str(n) for n in range(80, 100)]


def test_the_traceback_that_ended_the_rank_is_left_out() -> None:
    run = make_run(state="failed", log=f"a\n{TRACEBACK}last words\n", error={"text": TRACEBACK, "message": "bad"})
    feed = OutputFeed(run)
    assert feed.read() == []
    assert feed.finish() == ["a", "last words"]


def test_the_message_of_an_exit_is_left_out_too() -> None:
    run = make_run(state="failed", log="3\na\n3\n", error={"text": TRACEBACK, "message": "3"})
    assert OutputFeed(run).finish() == ["3", "a"]


def test_a_traceback_that_the_program_printed_itself_is_shown() -> None:
    run = make_run(log=f"a\n{TRACEBACK}b\n")
    assert OutputFeed(run).read() == ["a", *TRACEBACK.splitlines(), "b"]


def test_a_warning_is_shown_once_and_counted() -> None:
    line = "x.py:3: UserWarning: old\n  f()\n"
    run = make_run(log=line * 5 + "done\n")
    lines = OutputFeed(run).finish()
    assert lines == ["x.py:3: UserWarning: old", "  f()", "done", "UserWarning: old (5 times, rank 0)"]


def test_a_flood_is_cut_in_the_middle_which_is_told_at_once() -> None:
    bounds = Bounds("brisk-otter-7", most_lines=3)
    assert bounds.feed(["a", "b"]) == ["a", "b"]
    first, note = bounds.feed([str(n) for n in range(100)])
    assert first == "0"
    assert "%jtrain logs brisk-otter-7" in note
    assert bounds.feed(["x"]) == []
    last = bounds.finish()
    assert last == ["… 80 lines are left out here", *(str(n) for n in range(81, 100)), "x"]


def test_a_few_lines_too_many_are_all_shown() -> None:
    bounds = Bounds("r", most_lines=1)
    assert bounds.feed(["a", "b", "c"]) + bounds.finish() == ["a", "b", "c"]


def test_long_lines_count_by_their_length() -> None:
    bounds = Bounds("r", most_lines=100, most_chars=50)
    assert len(bounds.feed(["x" * 20] * 10)) == 2


def test_what_was_never_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_MOST_BYTES", 100)
    run = make_run(log="".join(f"line {n}\n" for n in range(1000)))
    feed = OutputFeed(run)
    lines = feed.read()
    assert lines[-1] == "line 999"
    assert "too fast to be shown" in lines[0]


def test_a_resumed_run_does_not_show_again_what_it_had_printed() -> None:
    run = make_run(log="old 1\nold 2\n")
    new = run.paths.attempt(2)
    new.create()
    new.log(0).write_text("new 1\nnew 2\n")
    assert OutputFeed(run, seen=1).read() == ["new 1", "new 2"]


def test_a_notice_of_several_lines_that_rank_0_printed_is_not_told_again() -> None:
    run = make_run(log="jtrain: can't be sent:\n  a\n  b\n")
    notice = {"time": 1.0, "level": "warning", "text": "can't be sent:\n  a\n  b"}
    append_line(run.paths.attempt(1).notices(0), notice)
    stream = io.StringIO()
    PlainView(run, stream).finish(SnapshotReader(run).read(is_last=True))
    assert stream.getvalue().count("can't be sent") == 1
