"""Logs by cursor: raw text with its colours, cut only between characters."""

from __future__ import annotations

import codecs
import os

from jtrain.domain.messages import Cursor, LogAnswer
from jtrain.store.paths import RunPaths

MOST_BYTES = 256 << 10
"""Bytes of a log in one message or answer for a thousand lines."""

_BLOCK_BYTES = 64 << 10
_MOST_TAIL_BYTES = 4 << 20


def log_size(paths: RunPaths, attempt: int, rank: int) -> int | None:
    """Bytes in a rank's log, None while there is none."""
    try:
        return paths.attempt(attempt).log(rank).stat().st_size
    except FileNotFoundError:
        return None


def read_on(paths: RunPaths, rank: int, cursor: Cursor, size: int, *, is_over: bool) -> tuple[str, int, Cursor]:
    """The text after `cursor` in a log of `size` bytes, how many bytes were left out before it, and the new cursor.

    `is_over`: nothing will come any more, so that half a character at the end is one that nobody will complete.
    """
    start = cursor["count"] if cursor["count"] <= size else 0  # emptied by somebody
    skipped = max(0, size - start - MOST_BYTES)
    start += skipped
    try:
        with open(paths.attempt(cursor["attempt"]).log(rank), "rb") as file:
            file.seek(start)
            data = file.read(size - start)
    except FileNotFoundError:
        return "", 0, cursor
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(data, final=is_over)
    pending = len(decoder.getstate()[0])
    return text, skipped, {"attempt": cursor["attempt"], "count": start + len(data) - pending}


def read_tail(paths: RunPaths, rank: int, lines: int) -> LogAnswer:
    """The last `lines` of a rank's log over all attempts."""
    numbers = paths.attempt_numbers()
    text, skipped = "", False
    cursor: Cursor = {"attempt": numbers[-1] if numbers else 0, "count": 0}
    for number in reversed(numbers):
        part, count, is_cut = _tail(paths, number, rank, lines - text.count("\n"))
        if number == cursor["attempt"]:
            cursor = {"attempt": number, "count": count}
        text, skipped = part + text, is_cut
        if is_cut or text.count("\n") >= lines:
            skipped = is_cut or number != numbers[0]
            break
    return {"rank": rank, "text": text, "skipped": skipped, "cursor": cursor}


def _tail(paths: RunPaths, attempt: int, rank: int, lines: int) -> tuple[str, int, bool]:
    """The end of one log, the bytes up to its end, and whether something before it was left out."""
    try:
        with open(paths.attempt(attempt).log(rank), "rb") as file:
            end = file.seek(0, os.SEEK_END)
            start, data = end, b""
            while start > 0 and data.count(b"\n") <= lines and end - start < _MOST_TAIL_BYTES:
                start = max(0, start - _BLOCK_BYTES)
                file.seek(start)
                data = file.read(end - start)
    except FileNotFoundError:
        return "", 0, False
    cut = _cut_before(data, lines)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(data[cut:])
    return text, end - len(decoder.getstate()[0]), start + cut > 0


def _cut_before(data: bytes, lines: int) -> int:
    """Where the last `lines` of `data` begin."""
    position = len(data) - (1 if data.endswith(b"\n") else 0)
    for _ in range(lines):
        position = data.rfind(b"\n", 0, position)
        if position < 0:
            return 0
    return position + 1
