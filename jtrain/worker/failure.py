"""From an exception to a record that people can read elsewhere."""

from __future__ import annotations

import json
import linecache
import os
import sys
import time
import traceback
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any

from jtrain.store.files import write_atomic

_JTRAIN = str(Path(__file__).parents[1]) + os.sep
_MOST_FRAMES = 60
_SHOWN_AT_ENDS = 20


class Frames:
    """Tells a user's code from that of libraries. `own_files` are the names of cells and scripts."""

    def __init__(self, own_files: Collection[str], workdir: str) -> None:
        self._own_files = frozenset(own_files)
        self._workdir = workdir.rstrip(os.sep) + os.sep

    def is_users(self, filename: str) -> bool:
        """Whether the code in `filename` is the user's own."""
        if filename in self._own_files or filename.startswith("<"):
            return filename in self._own_files
        if filename.startswith(_JTRAIN):  # an editable installation may lie in the working folder
            return False
        is_installed = "site-packages" in filename or "dist-packages" in filename or filename.startswith(sys.prefix)
        return filename.startswith(self._workdir) and not is_installed

    def of(self, tb: TracebackType | None) -> list[dict[str, Any]]:
        """The frames of a traceback as records, outermost first; the middle of a very long one is left out."""
        summaries = list(_walk(tb))
        left_out = 0
        if len(summaries) > _MOST_FRAMES:
            left_out = len(summaries) - 2 * _SHOWN_AT_ENDS
            summaries = summaries[:_SHOWN_AT_ENDS] + summaries[-_SHOWN_AT_ENDS:]
        records = [self._record(*summary) for summary in summaries]
        if left_out:
            gap = {"file": "", "line": 0, "function": "", "text": f"… {left_out} more calls …", "user": False}
            records.insert(_SHOWN_AT_ENDS, gap)
        return self._without_launcher(records)

    def _record(self, filename: str, line: int, function: str) -> dict[str, Any]:
        return {
            "file": filename,
            "line": line,
            "function": function,
            "text": linecache.getline(filename, line).strip(),
            "user": self.is_users(filename),
        }

    def _without_launcher(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Leave out jtrain's own frames before the first one of the user."""
        first = next((i for i, record in enumerate(records) if record["user"]), 0)
        return records[first:]


def _walk(tb: TracebackType | None) -> Any:
    while tb is not None:
        code = tb.tb_frame.f_code
        yield code.co_filename, tb.tb_lineno, code.co_name
        tb = tb.tb_next


def describe(error: BaseException, rank: int, step: int, frames: Frames) -> dict[str, Any]:
    """The record of `error`; never raises, whatever the exception's own methods do."""
    return {
        "rank": rank,
        "type": type(error).__qualname__,
        "module": type(error).__module__,
        "message": _message(error),
        "time": time.time(),
        "step": step,
        "frames": frames.of(error.__traceback__),
        "text": _text(error),
        "exit_code": None,
    }


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001 - a user's __str__ may raise anything
        return f"(its message can't be shown: __str__ raised {type(second).__name__})"


def _text(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error, limit=-_MOST_FRAMES))
    except Exception:  # noqa: BLE001 - formatting calls the exception's own methods
        return "".join(traceback.format_tb(error.__traceback__)) + f"{type(error).__qualname__}: {_message(error)}\n"


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Put the record where the supervisor looks; a full disk is told in the rank's log instead."""
    try:
        write_atomic(path, json.dumps(record, ensure_ascii=False, default=str))
    except OSError as problem:
        print(f"jtrain: the error above could not be kept in {path}: {problem}", file=sys.stderr)


def exit_record(error: SystemExit, record: dict[str, Any]) -> tuple[int, dict[str, Any] | None]:
    """The exit code of a `sys.exit`, and its record when it is a failure: a text means 1, as in any Python program."""
    code = error.code
    if code is None or code == 0:
        return 0, None
    number = code if isinstance(code, int) else 1
    return number & 0xFF or 1, {**record, "exit_code": number, "message": record["message"] or str(code)}
