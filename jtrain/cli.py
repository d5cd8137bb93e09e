"""The program `jtrain`: the same runs and verbs as in a notebook, from a shell."""

from __future__ import annotations

import sys
from collections.abc import Sequence

WINDOWS = (
    "jtrain does not run on Windows itself: install it inside WSL, the Windows Subsystem for Linux "
    "(https://learn.microsoft.com/windows/wsl), and start Jupyter there."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code.

    0: finished, 1: failed, 2: wrong usage, 75: the run is paused (sysexits.h: try again later), 130: interrupted.
    """
    if sys.platform == "win32":
        print(WINDOWS, file=sys.stderr)
        return 2
    from jtrain.program import run_program

    return run_program(sys.argv[1:] if arguments is None else list(arguments))
