"""What rank 0 prints, on its way into a notebook or a terminal: followed, and kept within bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path

from jtrain.run import Run
from jtrain.store.logs import LogReader, WarningFolder

MOST_LINES = 1000
MOST_CHARS = 200_000
"""What a notebook takes of a run's output. It is saved with the notebook, and browsers slow down beyond that."""
LAST_LINES = 20
_BLOCK_BYTES = 1 << 20


class OutputFeed:
    """Follows rank 0's log from attempt to attempt.

    `partial` is an unfinished last line (a progress bar). With `only_new` all that is there already is passed over,
    but for the last few lines.
    """

    def __init__(self, run: Run, *, only_new: bool = False) -> None:
        self._run = run
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
        return lines

    def finish(self) -> list[str]:
        """The rest: an unfinished last line, and a sentence for each warning that was left out."""
        lines = self.read()
        rest = [self.partial] if self.partial else []
        self.partial = ""
        return lines + rest + self._folder.summary()

    def _read_attempt(self, number: int) -> list[str]:
        rest = []
        if self._reader is None or number > self._attempt:
            rest = [self.partial] if self.partial else []
            self._attempt = number
            self._reader = LogReader(self._run.paths.attempt(number).log(0))
        chunk = self._reader.read()
        self.partial = chunk.partial
        return self._folder.feed(rest + chunk.lines)

    def count_lines(self) -> int:
        """Lines in the logs of all attempts."""
        return sum(_count(attempt.log(0)) for attempt in self._run.attempts)


def _count(path: Path) -> int:
    total = 0
    try:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK_BYTES):
                total += block.count(b"\n")
    except FileNotFoundError:
        return 0
    return total


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
