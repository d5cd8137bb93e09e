"""What rank 0 prints, on its way into a notebook or a terminal: followed, and kept within bounds."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterable

from jtrain.domain.wording import format_bytes
from jtrain.run import Run
from jtrain.store.files import read_json
from jtrain.store.logs import LogReader, WarningFolder

MOST_LINES = 1000
MOST_CHARS = 200_000
"""What a notebook takes of a run's output. It is saved with the notebook, and browsers slow down beyond that."""
LAST_LINES = 20
_TRACEBACK = re.compile(r"(  \+ Exception Group )?Traceback \(most recent call last\):")
_HOLD_S = 1.0
_MOST_BYTES = 8 << 20
"""Of one update's output, at most so much is read."""


class OutputFeed:
    """Follows rank 0's log from attempt to attempt.

    `partial` is an unfinished last line (a progress bar). With `only_new` all that is there already is passed over,
    but for the last few lines. The traceback that ends a rank is left out: the error is shown by itself. So lines
    that look like one are held back for a moment.
    """

    def __init__(self, run: Run, *, only_new: bool = False) -> None:
        self._run = run
        self._tracebacks = _TracebackHolder()
        self._folder = WarningFolder()
        self._reader: LogReader | None = None
        self._attempt = 0
        self._keeps_last = only_new
        self.partial = ""
        if only_new and (numbers := run.paths.attempt_numbers()):
            self._attempt = numbers[-1] - 1

    def read(self) -> list[str]:
        """Complete lines that have come since the last call."""
        lines: list[str] = []
        for number in self._run.paths.attempt_numbers():
            if number >= self._attempt:
                lines += self._read_attempt(number)
        if self._keeps_last and lines:
            lines, self._keeps_last = lines[-LAST_LINES:], False
        return self._tracebacks.feed(lines)

    def finish(self) -> list[str]:
        """The rest: an unfinished last line, and a sentence for each warning that was left out."""
        lines = self.read() + self._tracebacks.release(self._last_error())
        rest = [self.partial] if self.partial else []
        self.partial = ""
        return lines + rest + self._folder.summary()

    def _last_error(self) -> str:
        """The traceback that rank 0 ended with, or ""."""
        attempts = self._run.attempts
        if not attempts:
            return ""
        try:
            record = read_json(attempts[-1].error(0))
        except (OSError, ValueError):
            return ""
        return str(record.get("text", "")) if isinstance(record, dict) else ""

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


class _TracebackHolder:
    """Keeps lines from the beginning of a traceback on, until it is clear that it isn't the end of the rank."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._until = 0.0

    def feed(self, lines: list[str]) -> list[str]:
        if not self._held:
            start = next((index for index, line in enumerate(lines) if _TRACEBACK.match(line)), len(lines))
            self._held, lines = lines[start:], lines[:start]
            self._until = time.monotonic() + _HOLD_S
            return lines
        self._held += lines
        return self.release("") if time.monotonic() >= self._until else []

    def release(self, traceback_text: str) -> list[str]:
        """The lines held so far, without those of `traceback_text`."""
        held, self._held = self._held, []
        block = [line.rstrip() for line in traceback_text.splitlines()]
        shown = [line.rstrip() for line in held]
        for start in range(len(shown) - len(block) + 1) if block else ():
            if shown[start : start + len(block)] == block:
                return held[:start] + held[start + len(block) :]
        return held


class Bounds:
    """Lets lines through until there are too many, then keeps only the last ones."""

    def __init__(self, most_lines: int = MOST_LINES, most_chars: int = MOST_CHARS) -> None:
        self._lines_left = most_lines
        self._chars_left = most_chars
        self._held: deque[str] = deque(maxlen=LAST_LINES)
        self._num_held = 0

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
        return shown

    def finish(self, run_id: str, skipped: int = 0) -> list[str]:
        """What to show last: how many lines were left out (`skipped` more that were never fed), and the last lines."""
        left_out = self._num_held - len(self._held) + skipped
        note = f"… {left_out} more lines here; `%jtrain logs {run_id}` shows all"
        return [*([note] if left_out > 0 else []), *self._held]
