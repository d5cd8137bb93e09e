"""Which local modules a run may use, judged generously: better one warning too many than one too few.

A module is used when the program's text has its name among its words, when the payload names it, or when a module that
is used has its name among the words of its file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_WORD = re.compile(r"\w+")


def reached_modules(modules: Mapping[str, str], program: str, payload: Path) -> set[str]:
    """Those of `modules` (names and files) that `program` may use with the variables in the folder `payload`."""
    content = b"".join(_read(file) for file in sorted(payload.glob("*")) if file.suffix in (".pkl", ".json"))
    waiting = [*_named(modules, program), *(name for name in modules if name.encode() in content)]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in modules or name in reached:
            continue
        reached.add(name)
        waiting += _named(modules, _read(Path(modules[name])).decode(errors="replace"))
        waiting += [name.rpartition(".")[0]]  # importing a module imports the package around it
    return reached


def _named(modules: Iterable[str], text: str) -> list[str]:
    words = set(_WORD.findall(text))
    return [name for name in modules if name.rpartition(".")[2] in words]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
