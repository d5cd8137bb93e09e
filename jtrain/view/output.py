"""What rank 0 prints, on its way into a notebook or a terminal: followed, and kept within bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from jtrain.domain.wording import format_bytes
from jtrain.run import Run
from jtrain.store.files import read_record
from jtrain.store.logs import LogReader, WarningFolder

MOST_LINES = 1000
MOST_CHARS = 200_000
"""What a notebook takes of a run's output. It is saved with the notebook, and browsers slow down beyond that."""
LAST_LINES = 20
_MOST_BYTES = 8 << 20
"""Of one update's output, at most so much is read."""


class OutputFeed:
    """Follows rank 0's log from attempt to attempt.

    `partial` is an unfinished last line (a progress bar). With `seen` the output of so many attempts is passed over,
    and of what there is already of later ones only the last few lines are given. The traceback that ends a rank is left
    out: the error is shown by itself. So what comes after the rank has left its record of the error is held back until
    it is clear which lines those are.
    """

    def __init__(self, run: Run, *, seen: int | None = None) -> None:
        self._run = run
        self._held: list[str] = []
        self._folder = WarningFolder()
        self._reader: LogReader | None = None
        self._attempt = 0
        self._keeps_last = seen is not None
        self._seen = seen or 0
        self.partial = ""

    def read(self) -> list[str]:
        """Complete lines that have come since the last call."""
        lines: list[str] = []
        for number in self._run.paths.attempt_numbers():
            if number >= self._attempt and number > self._seen:
                lines += self._read_attempt(number)
        if self._keeps_last and lines:
            lines, self._keeps_last = lines[-LAST_LINES:], False
        if self._attempt and self._run.paths.attempt(self._attempt).error(0).exists():
            self._held += lines
            return []
        held, self._held = self._held, []  # of an attempt before this one, which may be shown whole
        return held + lines

    def finish(self) -> list[str]:
        """The rest: an unfinished last line, and a sentence for each warning that was left out."""
        lines = self.read() + without_error(self._held, self._last_error())
        self._held = []
        rest = [self.partial] if self.partial else []
        self.partial = ""
        return lines + rest + self._folder.summary()

    def _last_error(self) -> dict[str, Any]:
        """The record of the error that rank 0 ended with; empty when there is none."""
        return read_record(self._run.paths.attempt(self._attempt).error(0))

    def _read_attempt(self, number: int) -> list[str]:
        rest = []
        if self._reader is None or number > self._attempt:
            rest = [self.partial] if self.partial else []
            self._attempt = number
            self._reader = LogReader(self._run.paths.attempt(number).log(0), _MOST_BYTES)
        chunk = self._reader.read()
        self.partial = chunk.partial
        if chunk.skipped_bytes:
            size = format_bytes(chunk.skipped_bytes)
            rest.append(f"… {size} of output came too fast to be shown; `%jtrain logs {self._run.id}` shows all")
        return self._folder.feed(rest + chunk.lines)


def without_error(lines: list[str], record: Mapping[str, Any]) -> list[str]:
    """`lines` without what the rank printed of its error: the whole traceback, or the message of a `sys.exit`."""
    shown = [line.rstrip() for line in lines]
    for text in (record.get("text"), record.get("message")):
        block = [line.rstrip() for line in str(text or "").splitlines()]
        for start in range(len(shown) - len(block), -1, -1) if block else ():
            if shown[start : start + len(block)] == block:
                return lines[:start] + lines[start + len(block) :]
    return lines


class Bounds:
    """Lets lines through until there are too many; then it says so, and keeps only the last ones for the end."""

    def __init__(self, run_id: str, most_lines: int = MOST_LINES, most_chars: int = MOST_CHARS) -> None:
        self._run_id = run_id
        self._lines_left = most_lines
        self._chars_left = most_chars
        self._held: deque[str] = deque(maxlen=LAST_LINES)
        self._num_held = 0
        self._has_told = False

    def feed(self, lines: Iterable[str]) -> list[str]:
        """Those of `lines` that may be shown now."""
        shown = []
        for line in lines:
            is_open = not self._num_held and self._lines_left > 0 and self._chars_left >= len(line)
            if is_open:
                self._lines_left -= 1
                self._chars_left -= len(line) + 1
                shown.append(line)
            else:
                self._num_held += 1
                self._held.append(line)
        if self._num_held > LAST_LINES and not self._has_told:
            self._has_told = True
            shown.append(
                f"… enough lines for a notebook: `%jtrain logs {self._run_id}` shows all, the last ones follow"
            )
        return shown

    def finish(self) -> list[str]:
        """What to show last: how many lines were left out, and the last lines."""
        left_out = self._num_held - len(self._held)
        return [*([f"… {left_out} lines are left out here"] if left_out else []), *self._held]
