"""From an exception to a record that people can read elsewhere."""

from __future__ import annotations

import json
import linecache
import os
import sys
import sysconfig
import time
import traceback
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any

from jtrain.domain.worker import EXIT_FAILED, EXIT_PAUSED
from jtrain.store.files import write_atomic

_JTRAIN = str(Path(__file__).parents[1]) + os.sep
_LAUNCHER = str(Path(__file__).with_name("main.py"))
_INSTALLED = tuple(
    {str(Path(path)) + os.sep for path in (sys.prefix, sys.base_prefix, sysconfig.get_paths()["stdlib"])} - {os.sep}
)
"""Folders of Python and its packages, which may lie in a user's working folder (their home)."""
_MOST_FRAMES = 60
_SHOWN_AT_ENDS = 20
_MOST_LINES = 400
_LINES_AT_ENDS = 120
_MOST_CHARACTERS = 20_000
_MOST_CALLS = 5_000
_MOST_CAUSES = 5


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
        is_installed = "site-packages" in filename or "dist-packages" in filename or filename.startswith(_INSTALLED)
        return filename.startswith(self._workdir) and not is_installed

    def of(self, tb: TracebackType | None) -> list[dict[str, Any]]:
        """A traceback's frames as records, from the user's first on; the middle of a very long one is left out."""
        summaries = list(_walk(tb))
        left_out = 0
        if len(summaries) > _MOST_FRAMES:
            left_out = len(summaries) - 2 * _SHOWN_AT_ENDS
            summaries = summaries[:_SHOWN_AT_ENDS] + summaries[-_SHOWN_AT_ENDS:]
        records = [self._record(*summary) for summary in summaries]
        if left_out:
            gap = {"file": "", "line": 0, "function": "", "text": f"… {left_out} more calls …", "user": False}
            records.insert(_SHOWN_AT_ENDS, gap)
        return records

    def _record(self, filename: str, line: int, function: str) -> dict[str, Any]:
        return {
            "file": filename,
            "line": line,
            "function": function,
            "text": _clean(linecache.getline(filename, line).strip()),
            "user": self.is_users(filename),
        }

    def without_launcher(self, tb: TracebackType | None) -> TracebackType | None:
        """The traceback from the user's first frame on, or without jtrain's first ones when the user has none."""
        users = tb
        while users is not None and not self.is_users(users.tb_frame.f_code.co_filename):
            users = users.tb_next
        while users is None and tb is not None and tb.tb_frame.f_code.co_filename == _LAUNCHER:
            tb = tb.tb_next
        return users or tb


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
        "message": _clean(_message(error)),
        "time": time.time(),
        "step": step,
        "frames": frames.of(tb := frames.without_launcher(error.__traceback__)),
        "causes": [_cause(*earlier, frames) for earlier in reversed(_earlier(error))],
        "text": _clean(_shorten(_text(error, tb))),
        "exit_code": None,
    }


def _earlier(error: BaseException) -> list[tuple[BaseException, bool]]:
    """What led to an exception, the latest first: each exception, and whether it was named as the cause (`from`)."""
    found: list[tuple[BaseException, bool]] = []
    seen = {id(error)}
    while len(found) < _MOST_CAUSES:
        cause = error.__cause__
        before = cause if cause is not None or error.__suppress_context__ else error.__context__
        if before is None or id(before) in seen:
            break
        found.append((before, cause is not None))
        seen.add(id(before))
        error = before
    return found


def _cause(error: BaseException, is_direct: bool, frames: Frames) -> dict[str, Any]:
    return {
        "type": type(error).__qualname__,
        "message": _clean(_message(error)),
        "frames": frames.of(frames.without_launcher(error.__traceback__)),
        "is_direct": is_direct,
    }


def _message(error: BaseException) -> str:
    try:
        return _cut("\n".join([str(error), *getattr(error, "__notes__", ())]))
    except BaseException as second:  # noqa: BLE001 - a user's __str__ may raise anything
        return f"(its message can't be shown: __str__ raised {type(second).__name__})"


def _text(error: BaseException, tb: TracebackType | None) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, tb, limit=-_MOST_CALLS))
    except BaseException:  # noqa: BLE001 - formatting calls the exception's own methods
        calls = "".join(traceback.format_tb(tb, limit=-_MOST_CALLS))
        return f"{calls}{type(error).__qualname__}: {_message(error)}\n"


def _shorten(text: str) -> str:
    """Without the middle of very many lines, and of very long ones."""
    lines = [_cut(line) for line in text.split("\n")]
    if len(lines) > _MOST_LINES:
        left_out = len(lines) - 2 * _LINES_AT_ENDS
        lines[_LINES_AT_ENDS:-_LINES_AT_ENDS] = [f"  … {left_out} lines left out …"]
    return "\n".join(lines)


def _cut(text: str) -> str:
    half = _MOST_CHARACTERS // 2
    return text if len(text) <= 2 * half else f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"


def _clean(text: str) -> str:
    """Text that every file and page takes: half a surrogate pair (an undecodable file name, say) is written out."""
    return text.encode(errors="backslashreplace").decode()


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
    status = number & 0xFF or EXIT_FAILED
    if status == EXIT_PAUSED:  # which would say that the run has paused
        status = EXIT_FAILED
    return status, {**record, "exit_code": number, "message": record["message"] or str(code)}
