"""Where a rank's standard output and error go: its log."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from typing import Any

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EROFS})


class _Log(io.FileIO):
    """A descriptor whose disk may be full: what it doesn't take is lost, and no `print` ends the training."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            return memoryview(data).nbytes


def redirect_output(log: Path) -> None:
    """Everything written to standard output or error, by Python or not, goes to the rank's log."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, number in ((nothing, 0), (target, 1), (target, 2)):
        os.dup2(source, number)
    os.close(nothing)
    os.close(target)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - lives as long as the process
    sys.stdout = sys.__stdout__ = _open_stream(1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _open_stream(2)  # type: ignore[misc]


def _open_stream(number: int) -> io.TextIOWrapper:
    raw = io.BufferedWriter(_Log(number, "w", closefd=False))
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)
