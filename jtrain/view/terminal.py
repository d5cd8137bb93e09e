"""The view in a terminal: rank 0's output runs up, one line of progress stays below it."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from jtrain.run import Run
from jtrain.view.output import OutputFeed
from jtrain.view.plain import Notices
from jtrain.view.snapshot import Snapshot
from jtrain.view.text import progress_line, summary_text

_ERASE = "\r\x1b[2K"  # ECMA-48: carriage return, erase in line
_UNKNOWN_WIDTH = 100
_MOST_LINES = 500
"""Lines written at once; of more than that only the last are shown."""


class TerminalView:
    """Needs a stream that is a terminal."""

    def __init__(self, run: Run, stream: TextIO | None = None, *, seen: int | None = None) -> None:
        self._run = run
        self._stream = stream or sys.stdout
        self._feed = OutputFeed(run, seen=seen)
        self._notices = Notices()

    def update(self, snapshot: Snapshot) -> None:
        lines = self._feed.read()
        self._write(lines + self._notices.new(snapshot, lines), progress_line(snapshot, self._width() - 1))

    def tell(self, sentence: str) -> None:
        self._write([sentence], "")

    def finish(self, snapshot: Snapshot) -> None:
        lines = self._feed.finish()
        self._write([*lines, *self._notices.new(snapshot, lines), summary_text(snapshot)], "")

    def _write(self, lines: list[str], progress: str) -> None:
        if len(lines) > _MOST_LINES:
            note = f"… {len(lines) - _MOST_LINES} more lines here; `jtrain logs {self._run.id}` shows all"
            lines = [note, *lines[-_MOST_LINES:]]
        self._stream.write(_ERASE + "".join(f"{line}\n" for line in lines) + progress)
        self._stream.flush()

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _UNKNOWN_WIDTH
        except OSError:
            return _UNKNOWN_WIDTH
