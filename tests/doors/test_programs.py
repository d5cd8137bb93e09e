"""Notebooks as programs: jupyter execute, papermill, nbconvert, nbval."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

pytestmark = pytest.mark.timeout(180)

SANITIZE = Path(__file__).parents[1] / "nbval-sanitize.cfg"
CELLS = (
    "%load_ext jtrain",
    "%%jtrain --nproc 2 --gpus none --seed 1 -o total\n"
    "total = 0\nfor step in range(5):\n    run.log({'loss': 1.0 / (step + 1)}, step=step)\n    total += step\n"
    "print('step', step)",
    "total",
)


def write(path: Path, *cells: str) -> Path:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)
    return path


def program(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env=os.environ,
    )


def outputs(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text())["cells"]
    return [output for cell in cells for output in cell.get("outputs", [])]


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Path]:
    return write(tmp_path / "training.ipynb", *CELLS)


def check_outputs(path: Path) -> None:
    stream, summary, plot, value = outputs(path)
    assert "".join(stream["text"]) == "step 4\n"
    assert "".join(summary["data"]["text/plain"]).splitlines()[0].endswith(": finished")
    assert "image/png" in plot["data"]
    assert value["data"]["text/plain"] in ("10", ["10"])
    assert not any("widget" in kind for output in outputs(path) for kind in output.get("data", {}))


def test_jupyter_execute(notebook: Path) -> None:
    done = program("jupyter", "execute", "--inplace", notebook.name, cwd=notebook.parent)
    assert done.returncode == 0, done.stderr
    check_outputs(notebook)


def test_papermill(notebook: Path) -> None:
    done = program("papermill", notebook.name, "out.ipynb", "--log-output", cwd=notebook.parent)
    assert done.returncode == 0, done.stderr
    check_outputs(notebook.parent / "out.ipynb")


def test_run_all_stops_at_a_run_that_fails(tmp_path: Path) -> None:
    path = write(
        tmp_path / "failing.ipynb", CELLS[0], "%%jtrain --nproc 1 --gpus none\n1 / 0", "after = 1\nprint('after')"
    )
    done = program("jupyter", "execute", "--inplace", path.name, cwd=tmp_path)
    assert done.returncode != 0
    assert "ZeroDivisionError" in done.stderr
    assert "after" not in [output.get("text") for output in outputs(path)]


def test_nbval_compares_the_outputs_of_two_runs(notebook: Path) -> None:
    assert program("jupyter", "execute", "--inplace", notebook.name, cwd=notebook.parent).returncode == 0
    words = (
        "pytest",
        "--nbval",
        "--nbval-current-env",
        "--nbval-sanitize-with",
        str(SANITIZE),
        "-q",
        "-p",
        "no:cacheprovider",
    )
    done = program(*words, notebook.name, cwd=notebook.parent)
    assert done.returncode == 0, done.stdout
    changed = notebook.read_text().replace("step 4", "step 5")
    notebook.write_text(changed)
    assert program(*words, notebook.name, cwd=notebook.parent).returncode == 1
