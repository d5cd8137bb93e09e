"""The view for where nobody looks, or nothing can be drawn over: rank 0's output as it comes, then the summary."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from jtrain.run import Run
from jtrain.view.output import Bounds, OutputFeed
from jtrain.view.snapshot import Snapshot
from jtrain.view.text import progress_line, summary_text


class Notices:
    """Tells every notice of a run once: rank 0 has printed its own, so they stand in its output already."""

    def __init__(self) -> None:
        self._told = 0
        self._attempt = 0
        self._printed: set[str] = set()

    def new(self, snapshot: Snapshot, lines: Sequence[str] = ()) -> list[str]:
        """Notices that have come since the last call and are not among the `lines` of output shown so far."""
        self._printed |= {line for line in lines if line.startswith("jtrain: ")}
        if snapshot.attempt != self._attempt:
            self._attempt, self._told = snapshot.attempt, 0
        fresh = snapshot.notices[self._told :]
        self._told = len(snapshot.notices)
        told = dict.fromkeys(f"jtrain: {notice}" for notice in fresh)
        return [notice for notice in told if notice.partition("\n")[0] not in self._printed]


class PlainView:
    """Writes lines to a stream, one write an update. With `bounds` a flood of lines is cut."""

    def __init__(
        self, run: Run, stream: TextIO | None = None, *, bounds: Bounds | None = None, seen: int | None = None
    ) -> None:
        self._run = run
        self._stream = stream
        self._feed = OutputFeed(run, seen=seen)
        self._bounds = bounds
        self._notices = Notices()
        self._said = ""

    def update(self, snapshot: Snapshot) -> None:
        lines = self._feed.read()
        notices = self._notices.new(snapshot, lines)
        lines = lines if self._bounds is None else self._bounds.feed(lines)
        self._write(lines + self._waiting(snapshot) + notices)

    def tell(self, sentence: str) -> None:
        self._write([sentence])

    def finish(self, snapshot: Snapshot) -> None:
        self._write([*self.last_lines(snapshot), summary_text(snapshot)])

    def last_lines(self, snapshot: Snapshot) -> list[str]:
        """The rest of the output, and how much of it was left out."""
        lines = self._feed.finish()
        notices = self._notices.new(snapshot, lines)
        if self._bounds is not None:
            lines = self._bounds.feed(lines)
            lines += self._bounds.finish()
        return lines + notices

    def _waiting(self, snapshot: Snapshot) -> list[str]:
        """Why a run doesn't start, when it has to wait."""
        is_new = snapshot.state == "queued" and snapshot.reason not in ("", "created", "resumed", self._said)
        if not is_new:
            return []
        self._said = snapshot.reason
        return [progress_line(snapshot, width=400)]

    def _write(self, lines: Sequence[str]) -> None:
        if lines:
            stream = self._stream or sys.stdout
            stream.write("".join(f"{line}\n" for line in lines))
            stream.flush()
