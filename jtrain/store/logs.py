"""Reading the logs that the ranks write: as a terminal would show them, in little memory, however large they are.

Ranks write their standard output and error straight to `logs/rank-N.log`, so anything may stand there: progress
bars with carriage returns, colours, half characters, binary rubbish. `jtrain.store.screen` makes text of it.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from jtrain.store.screen import Screen

MAX_TEXT_BYTES = 64 << 20
"""The most of a log that `tail` reads."""

_BLOCK_BYTES = 64 << 10


@dataclass(frozen=True)
class LogChunk:
    """What is new in a log.

    `lines` are complete and stay as they are; `partial` is what stands after them now (a progress bar, a prompt;
    replaces the `partial` of the chunk before); `skipped_bytes` were left out in front of `lines`.
    """

    lines: list[str]
    partial: str
    skipped_bytes: int = 0


class LogReader:
    """Follows a log from its beginning; a log that isn't there yet is empty.

    When more than `max_bytes` have come since the last `read`, only the last of them are read: a program that prints
    faster than anybody can look loses nothing in its log, and costs a viewer no more than that.
    """

    def __init__(self, path: Path, max_bytes: int = 1 << 20) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self._restart(0)

    def _restart(self, offset: int) -> None:
        self._offset = offset
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._screen = Screen()

    def read(self) -> LogChunk:
        """Everything that has come since the last call."""
        try:
            with open(self.path, "rb") as file:
                return self._read(file)
        except FileNotFoundError:
            return LogChunk([], "")

    def _read(self, file: BinaryIO) -> LogChunk:
        size = os.fstat(file.fileno()).st_size
        if size < self._offset:  # emptied by somebody
            self._restart(0)
        skipped = max(0, size - self._offset - self.max_bytes)
        if skipped:
            self._restart(self._offset + skipped)
        file.seek(self._offset)
        data = file.read(size - self._offset)
        self._offset += len(data)
        lines = self._screen.feed(self._decoder.decode(data))
        return LogChunk(lines, self._screen.live, skipped)


def tail(path: Path, lines: int | None = None) -> str:
    """The last `lines` of a log as text, or all of it (at most its last 64 MiB, saying so); "" for a missing file.

    A last line that isn't finished counts as one, and ends without a newline.
    """
    limit = MAX_TEXT_BYTES if lines is None else min(MAX_TEXT_BYTES, (1 << 20) + lines * 4096)
    try:
        with open(path, "rb") as file:
            start = _find_start(file, lines, limit)
            file.seek(start)
            data = file.read(limit)
    except FileNotFoundError:
        return ""
    screen = Screen()
    shown = screen.feed(data.decode(errors="replace"))
    if lines is None and start:
        shown[0:1] = [f"… {start} earlier bytes are in {path}"]
    partial = screen.live
    if lines is not None:
        keep = lines - bool(partial)
        shown = shown[-keep:] if keep > 0 else []
        partial = partial if lines > 0 else ""
    return "".join(f"{line}\n" for line in shown) + partial


def _find_start(file: BinaryIO, lines: int | None, limit: int) -> int:
    """Where the last `lines` begin, searching backwards, but at most `limit` bytes before the end."""
    end = file.seek(0, os.SEEK_END)
    first = max(0, end - limit)
    if lines is None:
        return first
    position, newlines = end, 0
    while position > first and newlines <= lines:
        block_start = max(first, position - _BLOCK_BYTES)
        file.seek(block_start)
        newlines += file.read(position - block_start).count(b"\n")
        position = block_start
    return position


_WARNING = re.compile(r"(?P<where>\S.*?:\d+): (?P<text>\w*Warning: .*)")
"""What Python's `warnings` print: file, line, category and text; a source line follows, indented."""

_TORCH_WARNING = re.compile(r"(?:\[rank\d+\]:)?\s*\[?W\d{4} [\d:.]+ +\d*\s*(?P<where>\S+?:\d+)\] (?P<text>.*)")
"""What torch's C++ side prints: the rank, date, time and process differ though the warning is the same."""


@dataclass
class _Warning:
    text: str
    times: int = 0
    ranks: set[int] = field(default_factory=set)


class WarningFolder:
    """Lets every warning through once, whichever rank prints it, and counts the rest."""

    def __init__(self) -> None:
        self._seen: dict[str, _Warning] = {}
        self._is_skipping: set[int] = set()

    def feed(self, lines: Iterable[str], rank: int = 0) -> list[str]:
        """`lines` of `rank` without the warnings that were there before."""
        return [line for line in lines if self._is_new(line, rank)]

    def _is_new(self, line: str, rank: int) -> bool:
        found = _WARNING.fullmatch(line) or _TORCH_WARNING.fullmatch(line)
        if found is None:
            if rank in self._is_skipping and line.startswith("  "):
                return False
            self._is_skipping.discard(rank)
            return True
        warning = self._seen.setdefault(f"{found['where']} {found['text']}", _Warning(found["text"]))
        warning.times += 1
        warning.ranks.add(rank)
        (self._is_skipping.discard if warning.times == 1 else self._is_skipping.add)(rank)
        return warning.times == 1

    def summary(self) -> list[str]:
        """A sentence for each warning that came more than once."""
        return [
            f"{warning.text} ({warning.times} times, {_named(warning.ranks)})"
            for warning in self._seen.values()
            if warning.times > 1
        ]


def _named(ranks: set[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, sorted(ranks)))}"


def merge_ranks(lines: Mapping[int, Iterable[str]]) -> list[str]:
    """Lines of several ranks, each with its rank in front; repeated warnings once, and counted at the end."""
    folder = WarningFolder()
    merged = [f"[rank {rank}] {line}" for rank in sorted(lines) for line in folder.feed(lines[rank], rank)]
    return merged + folder.summary()
