"""Processes that ranks start and leave behind."""

from __future__ import annotations

import ctypes
import sys

import psutil

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def adopt_orphans() -> None:
    """Become the parent of what dead ranks leave behind (Linux), so that `end_orphans` finds it."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans() -> None:
    """Kill and reap everything that the ranks started and left (DataLoader workers, subprocesses)."""
    left = psutil.Process().children(recursive=True)
    for process in left:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(left, timeout=3)
