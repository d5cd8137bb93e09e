"""How the error of a rank is shown: as IPython shows errors of its own, once, with the user's frames first.

Knows no IPython: what it needs of it (are there colours, what is a cell called) it asks when IPython is loaded.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jtrain.errors import WorkerError

_CONTEXT = 2
_WIDTH = 75
_INSTALLED = re.compile(r"(?:site-packages|dist-packages)/([^/]+)")
_STANDARD = re.compile(r"/lib/python\d\.\d+/([^/]+)")

_RED, _GREEN, _DIM, _BOLD = "31", "32", "2", "1"
Sources = Mapping[str, tuple[int, str]]
"""Text of files that are not on the disk, by name: the number of the first line, and the text."""


def render_worker_error(error: WorkerError, *, has_colors: bool | None = None) -> list[str]:
    """The lines of a traceback for `error`. `has_colors` None: as the running IPython has them."""
    paint = _Paint(_notebook_has_colors() if has_colors is None else has_colors)
    kind = error.type_name or type(error).__name__
    where = f"run {error.run_id}" if error.rank is None else f"rank {error.rank} of run {error.run_id}"
    lines = [paint("-" * _WIDTH, _RED), f"{paint(kind, _RED)}{where.rjust(_WIDTH - len(kind))}"]
    for cause in error.causes:
        lines += _cause(cause, error.sources, paint)
    lines += _body(error, paint)
    if lines[-1]:
        lines.append("")
    lines += [f"{paint(kind, _RED)}: {error.message}" if error.type_name else str(error)]
    if error.others:
        lines += ["", paint(_fold_others(error.others), _DIM)]
    if error.next_step:
        lines += ["", f"What to do: {error.next_step}"]
    return lines


def _body(error: WorkerError, paint: _Paint) -> list[str]:
    """The frames, or the text of the whole traceback where frames don't tell all (a group of exceptions)."""
    frames = _without_library_start(error.frames)
    if not frames or error.type_name.endswith("ExceptionGroup"):
        text = error.traceback_text.rstrip()
        return text.splitlines() if "Traceback (" in text else []
    return _all_frames(frames, error.sources, paint)


def _cause(cause: Mapping[str, Any], sources: Sources, paint: _Paint) -> list[str]:
    """An exception that led to the next one, as Python words it."""
    lines = _all_frames(_without_library_start(cause.get("frames", ())), sources, paint)
    if lines and lines[-1]:
        lines.append("")
    relation = (
        "The above exception was the direct cause of the following exception:"
        if cause.get("is_direct")
        else "During handling of the above exception, another exception occurred:"
    )
    return [*lines, f"{paint(str(cause.get('type')), _RED)}: {cause.get('message')}", "", relation, ""]


def _all_frames(frames: Sequence[Mapping[str, Any]], sources: Sources, paint: _Paint) -> list[str]:
    lines: list[str] = []
    for is_user, group in groupby(frames, key=lambda frame: bool(frame.get("user"))):
        found = list(group)
        lines += _user_frames(found, sources, paint) if is_user else [paint(_folded(found), _DIM)]
    return lines


def _without_library_start(frames: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Without the library's frames that called the user's code."""
    first = next((index for index, frame in enumerate(frames) if frame.get("user")), 0)
    return frames[first:]


def _user_frames(frames: Sequence[Mapping[str, Any]], sources: Sources, paint: _Paint) -> list[str]:
    lines = []
    for _, group in groupby(frames, key=lambda frame: (frame["file"], frame["line"], frame["function"])):
        first, *same = group
        lines += _frame(first, sources, paint)
        if same:
            lines[-1:] = [paint(f"    … the same {len(same)} more time{'s' if len(same) > 1 else ''}", _DIM), ""]
    return lines


def _frame(frame: Mapping[str, Any], sources: Sources, paint: _Paint) -> list[str]:
    file, number = str(frame["file"]), int(frame.get("line") or 0)
    function = frame.get("function") or "<module>"
    inside = "" if function in ("<module>", "") else f", in {function}"
    head = f"{paint(_shown_name(file), _GREEN)}, {paint(f'line {number}', _GREEN)}{inside}"
    return [head, *_context(file, number, str(frame.get("text") or ""), sources, paint), ""]


def _context(file: str, number: int, text: str, sources: Sources, paint: _Paint) -> list[str]:
    """The source around a line, with an arrow; only the line itself when the source isn't there or has changed."""
    first, lines = _source(file, sources)
    index = number - first
    if not 0 <= index < len(lines) or (text and lines[index].strip() != text.strip()):
        return [f"{paint(_arrow(number), _GREEN)} {paint(text.strip(), _BOLD)}"] if text else []
    shown = []
    for at in range(max(0, index - _CONTEXT), min(len(lines), index + _CONTEXT + 1)):
        if at == index:
            shown.append(f"{paint(_arrow(number), _GREEN)} {paint(lines[at].rstrip(), _BOLD)}")
        else:
            shown.append(f"{at + first:>7} {lines[at].rstrip()}")
    return shown


def _arrow(number: int) -> str:
    return "-" * max(0, 5 - len(str(number))) + f"> {number}"


def _source(file: str, sources: Sources) -> tuple[int, list[str]]:
    if file in sources:
        first, text = sources[file]
        return first, text.splitlines()
    return 1, linecache.getlines(file)


def _folded(frames: Sequence[Mapping[str, Any]]) -> str:
    """One line for frames of libraries: `    … 4 frames in torch, accelerate`.

    A record without a file says how many calls of a very deep recursion were left out.
    """
    if gap := next((str(frame["text"]) for frame in frames if not frame["file"]), ""):
        return f"    {gap}"
    names = dict.fromkeys(_library(str(frame["file"])) for frame in frames)
    count = f"{len(frames)} frame{'s' if len(frames) > 1 else ''}"
    return f"    … {count} in {', '.join(names)}"


def _library(file: str) -> str:
    path = file.replace("\\", "/")
    found = _INSTALLED.search(path) or _STANDARD.search(path)
    if found:
        return found[1].removesuffix(".py")
    return "jtrain" if "/jtrain/" in file else file


def _fold_others(others: Sequence[str]) -> str:
    shown = "; ".join(others[:3])
    more = f"; and {len(others) - 3} more" if len(others) > 3 else ""
    return f"Other ranks: {shown}{more}"


class _Paint:
    """Puts ANSI colours (ECMA-48 SGR) around text, or nothing."""

    def __init__(self, has_colors: bool) -> None:
        self._has_colors = has_colors

    def __call__(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._has_colors else text


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _notebook_has_colors() -> bool:
    return str(getattr(_shell(), "colors", "nocolor")).lower() != "nocolor"


def _shown_name(file: str) -> str:
    """`Cell In[5]` for a cell (also of this notebook, whose functions the run was given), else the file."""
    describe = getattr(getattr(_shell(), "compile", None), "format_code_name", None)
    found = describe(file) if describe is not None else None
    if found is not None:
        return " ".join(found)
    return file if file.startswith("Cell ") else f"File {file}"
