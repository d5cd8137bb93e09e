"""A cell is a program, or an error at its own line that says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from jtrain.capture.cell import parse_cell
from jtrain.errors import CaptureError, CellSyntaxError


def refusal(source: str, **options: object) -> CellSyntaxError:
    with pytest.raises(CellSyntaxError) as caught:
        parse_cell(source, "Cell In[3]", **options)  # type: ignore[arg-type]
    return caught.value


def test_a_cell_has_its_names_with_its_own_line_numbers() -> None:
    cell = parse_cell("y = 1\nprint(x, y)\n", "Cell In[3]")
    assert cell.names == {"print": 3, "x": 3}
    assert (cell.source, cell.filename, cell.first_line) == ("y = 1\nprint(x, y)\n", "Cell In[3]", 2)
    assert parse_cell("x", "f", first_line=7).names == {"x": 7}
    assert parse_cell("x", "f.py", first_line=1, is_script=True).names == {"x": 1}


@pytest.mark.parametrize(
    ("source", "line", "offset", "words"),
    [
        ("a = 1\n!nvidia-smi\n", 3, 1, ["!nvidia-smi", "subprocess.run('nvidia-smi', shell=True)", "cell of its own"]),
        ("%time train()", 2, 1, ["%time", "perf_counter"]),
        ("%matplotlib inline\nx = 1", 2, 1, ["%matplotlib", "cell of its own"]),
        ("if a:\n    %env A=1\n", 3, 5, ["%env", "os.environ"]),
        ("%%bash\nls", 2, 1, ["%%bash", "cell of its own"]),
        ("x = 1\ny = !ls -l\n", 3, 5, ["!ls -l", "cell above"]),
        ("x = %pwd", 2, 5, ["%pwd", "cell above"]),
        ("import torch\ntorch.nn?", 3, 1, ["torch.nn?", "cell of its own"]),
        ("??torch", 2, 1, ["??torch"]),
        ("!echo it's \"\nx = 1", 2, 1, ["shell line"]),
        ("!ls\nif a:\n    b\n  c\n", 2, 1, ["!ls"]),
        ("text = '''\n!no\n'''\n!ls", 5, 1, ["!ls"]),
    ],
)
def test_lines_that_only_a_notebook_understands_are_named(
    source: str, line: int, offset: int, words: list[str]
) -> None:
    error = refusal(source)
    assert (error.lineno, error.offset) == (line, offset)
    assert error.text == source.split("\n")[line - 2] + "\n"
    assert [word for word in words if word not in str(error)] == []


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("x = 1\nawait f()", 3, ["'await' outside function", "asyncio.run"]),
        ("async with a: pass", 2, ["asyncio.run"]),
        ("[x async for x in y]", 2, ["asyncio.run"]),
        ("x = 1\n\nreturn x", 4, ["'return' outside function", "if/else"]),
        ("yield 1", 2, ["'yield' outside function"]),
        ("x = 1\ny = 'abc\nz = 2", 3, ["unterminated string"]),
        ("x = '''abc\n\n\n", 2, ["unterminated triple-quoted string"]),
        ("if a:\n  b = 1\n c = 2", 4, ["unindent"]),
        ("x = 1\n  y = 2", 3, ["unexpected indent"]),
        ("for x in y:\n", 2, ["expected an indented block", "line 2"]),
        ("if a:\n\tb\n        c", 4, ["tabs and spaces"]),
        ("def f(a, a): pass", 2, ["duplicate argument"]),
        ("nonlocal x", 2, ["nonlocal"]),
        ("x = 1\nbreak", 3, ["outside loop"]),
        ("def f():\n    x\n    global x", 4, ["global"]),
        ("\nf(\n1,", 3, ["never closed"]),
        ("1 = x", 2, ["cannot assign to literal"]),
        ("x = (\n1 2\n)\n!ls", 3, ["invalid syntax"]),
        ("x = 1\ny = '\0'", 3, ["\\x00", "escape"]),
        ("x = 1\ny = '\ud800'", 3, ["\\ud800", "escape"]),
        ("x = 1\nfrom __future__ import annotations", 3, ["beginning of the file"]),
        ("-" * 100_000 + "1", 2, ["too deeply"]),
    ],
)
def test_what_python_refuses_is_an_error_at_the_cells_own_line(source: str, line: int, words: list[str]) -> None:
    error = refusal(source)
    assert error.lineno == line
    assert error.text == source.split("\n")[line - 2] + "\n"
    assert error.offset is not None
    assert 1 <= error.offset <= len(error.text)
    assert [word for word in words if word not in str(error)] == []


def test_the_error_is_both_of_its_kinds_and_says_where() -> None:
    error = refusal("x = (", first_line=4)
    assert isinstance(error, CaptureError)
    assert isinstance(error, SyntaxError)
    assert error.filename == "Cell In[3]"
    assert str(error).endswith("(Cell In[3], line 4)")


def test_a_script_gets_no_advice_about_notebooks() -> None:
    assert refusal("!ls", is_script=True, first_line=1).msg == "invalid syntax"
    assert refusal("return", is_script=True, first_line=1).msg == "'return' outside function"


_IN_IPYTHON = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell(colors="nocolor")
shell.run_cell("from jtrain.capture.cell import parse_cell")
shell.run_cell("parse_cell('x = 1\\\\n!nvidia-smi', 'Cell In[9]')")
"""


def test_ipython_shows_the_line_and_the_place(tmp_path: Path) -> None:
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path)}
    shown = subprocess.run(
        [sys.executable, "-c", _IN_IPYTHON], env=environment, capture_output=True, text=True, check=True
    )
    assert "Cell In[9]:3\n    !nvidia-smi\n    ^\nCellSyntaxError: `!nvidia-smi` is a shell line" in shown.stdout


def test_pythons_warnings_are_left_to_the_workers() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        parse_cell("x = 1 is 1\ny = '\\d'", "Cell In[3]")
    assert seen == []


def test_future_imports_at_the_top_of_a_cell_work() -> None:
    assert parse_cell("from __future__ import annotations\ndef f(x: T): pass", "Cell In[3]").names == {}


def test_without_ipython_a_magic_is_a_plain_syntax_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython.core", None)
    assert refusal("x = 1\n!ls").msg == "invalid syntax"
