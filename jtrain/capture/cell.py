"""A cell read as a program: its names, or an error at the cell's own line."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

from jtrain.capture.names import free_names
from jtrain.errors import CellSyntaxError

_UNREADABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True)
class Cell:
    """A program that compiles."""

    source: str
    filename: str
    first_line: int = 2
    """The number that the source's first line has in its cell."""
    names: dict[str, int] = field(default_factory=dict)
    """What it may take from the notebook, with the line where each is used first, as the cell counts lines."""
    attributes: frozenset[str] = frozenset()
    """All names behind a dot, by which submodules are recognised that the notebook has imported."""


def parse_cell(source: str, filename: str, *, first_line: int = 2, is_script: bool = False) -> Cell:
    """The body of a cell, or a file (`is_script`), as a program.

    Raises CellSyntaxError when it isn't one; the error has the line as the cell counts it, and says what to do
    about lines that only a notebook understands. Python's warnings about the source are left to the workers, which
    compile it too.
    """
    # Empty lines in front give every line the number that it has in its cell, also within Python's messages.
    text = "\n" * (first_line - 1) + source
    _check_characters(text, filename)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, filename)
            compile(tree, filename, "exec", dont_inherit=True)
            names = free_names(tree)
    except SyntaxError as error:
        found = _notebook_line(source, first_line) if not is_script else None
        if found is not None and found.line <= (error.lineno or found.line):
            raise _error(found.advice, text, filename, found.line, found.column) from None
        advice = "" if is_script else _ADVICE.get(error.msg, "")
        end = error.end_offset if error.end_lineno == error.lineno else None
        raise _error(error.msg + advice, text, filename, error.lineno, error.offset, end) from None
    except (RecursionError, MemoryError):
        raise _error(
            "the code is nested too deeply for Python; split it up", text, filename, first_line, None
        ) from None
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return Cell(source, filename, first_line, names, frozenset(attributes))


def _check_characters(text: str, filename: str) -> None:
    """Python refuses these too, without a line."""
    bad = _UNREADABLE.search(text)
    if bad:
        line_start = text.rfind("\n", 0, bad.start())
        message = f"the character {bad[0]!r} can't stand in a program; take it away, or write it as an escape"
        raise _error(message, text, filename, text.count("\n", 0, bad.start()) + 1, bad.start() - line_start)


def _error(
    message: str, text: str, filename: str, line: int | None, column: int | None, end: int | None = None
) -> CellSyntaxError:
    """The error as Python's own parser would fill it; a place behind the end is the end."""
    lines = text.split("\n")
    last = max((number for number, content in enumerate(lines, start=1) if content.strip()), default=1)
    line = min(line or last, last)
    error = CellSyntaxError(message)
    error.msg, error.filename, error.lineno = message, filename, line
    error.text = lines[line - 1].rstrip("\r") + "\n"
    error.offset = min(column or 1, len(error.text))
    error.end_lineno, error.end_offset = (line, end) if end and end > 0 else (None, None)
    return error


_NO_LOOP = "; in the workers no event loop runs: use asyncio.run(...)"
_ADVICE = {
    "'await' outside function": _NO_LOOP,
    "'async for' outside async function": _NO_LOOP,
    "'async with' outside async function": _NO_LOOP,
    "asynchronous comprehension outside of an asynchronous function": _NO_LOOP,
    "'return' outside function": "; a cell ends with its last line: put the code in a function, or use if/else",
    "'yield' outside function": "; put it in a function",
    "'yield from' outside function": "; put it in a function",
}
"""By CPython's message: what to do in a cell."""


@dataclass(frozen=True)
class _NotebookLine:
    line: int
    column: int
    advice: str


def _notebook_line(source: str, first_line: int) -> _NotebookLine | None:
    """The first line that only IPython understands: a magic, a shell line, a question."""
    try:
        from IPython.core import inputtransformer2 as transformer
    except ImportError:
        return None
    lines = [line + "\n" for line in source.split("\n")]
    tokens = None
    while tokens is None:
        try:
            tokens = transformer.make_tokens_by_line(lines)
        except SyntaxError as error:  # bad indentation: what stands above it is still looked at
            del lines[max(0, (error.lineno or 1) - 1) :]
    found = []
    for kind in (transformer.EscapedCommand, transformer.MagicAssign, transformer.SystemAssign, transformer.HelpEnd):
        match = kind.find(tokens)
        if match is not None:
            content = lines[match.start_line][match.start_col :].strip()
            found.append((match.start_line, match.start_col, content, kind.__name__))
    for line, column, content, kind_name in sorted(found):
        advise = _FORMS.get(kind_name if kind_name != "EscapedCommand" else content[:1])
        if advise is not None:
            return _NotebookLine(line + first_line, column + 1, advise(content))
    return None


def _about_shell(content: str) -> str:
    command = content.lstrip("!").strip()
    return (
        f"`{_short(content)}` is a shell line, and workers are plain Python. Run it in a cell of its own, or write "
        f"subprocess.run({_short(command)!r}, shell=True)"
    )


def _about_captured_shell(content: str) -> str:
    return (
        f"`{_short(content)}` takes the output of a shell line, and workers are plain Python. Assign it in a cell "
        "above; this cell can use the variable"
    )


def _about_magic(content: str) -> str:
    word = content.split()[0] if content.strip("%").strip() else content
    if word.startswith("%%"):
        return f"`{word}` is a cell magic, and this cell has one already: %%jtrain. Put it in a cell of its own"
    if word in ("%time", "%timeit", "%prun"):
        return f"`{word}` is a magic, and workers are plain Python. Take it away, and measure with time.perf_counter()"
    if word in ("%env", "%set_env"):
        return f"`{word}` is a magic, and workers are plain Python. Set the variable with os.environ[...] = ..."
    return f"`{word}` is a magic, and workers are plain Python. Run it in a cell of its own, above this one"


def _about_assigned_magic(content: str) -> str:
    return (
        f"`{_short(content)}` takes the value of a magic, and workers are plain Python. Assign it in a cell above; "
        "this cell can use the variable"
    )


def _about_question(content: str) -> str:
    return f"`{_short(content)}` asks the notebook for help. Ask in a cell of its own"


def _short(content: str) -> str:
    content = content.splitlines()[0].rstrip("\\ ")
    return content if len(content) <= 60 else content[:59] + "…"


_FORMS: dict[str, Callable[[str], str]] = {
    "!": _about_shell,
    "%": _about_magic,
    "?": _about_question,
    "HelpEnd": _about_question,
    "MagicAssign": _about_assigned_magic,
    "SystemAssign": _about_captured_shell,
}
