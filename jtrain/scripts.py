"""Notebooks as programs: reading one, and joining its cells to a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jtrain.errors import LaunchError

_LANGUAGES = ("python", "ipython", "ipython3", "")


def read_notebook(path: Path) -> dict[str, Any]:
    """A notebook file as its JSON. Raises LaunchError when it can't be read, or isn't one in Python."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise LaunchError(f"{path} can't be read as a notebook: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise LaunchError(f"{path} is no notebook of format 4; open it in Jupyter and save it")
    language = str(notebook.get("metadata", {}).get("kernelspec", {}).get("language", ""))
    if language.lower() not in _LANGUAGES:
        raise LaunchError(f"{path} is a notebook in {language}; jtrain trains with Python")
    return notebook


def code_cells(notebook: dict[str, Any]) -> list[str]:
    """The sources of its code cells."""
    cells = [cell for cell in notebook["cells"] if cell.get("cell_type") == "code"]
    return ["".join(cell.get("source", "")) for cell in cells]


def trains(notebook: dict[str, Any]) -> bool:
    """Whether one of its cells is a `%%jtrain` cell."""
    return any(source.lstrip().startswith("%%jtrain") for source in code_cells(notebook))


def joined_cells(notebook: dict[str, Any]) -> str:
    """All code cells as one script, each below a comment with its number."""
    return "\n\n".join(
        f"# Cell {number}\n{source.rstrip()}" for number, source in enumerate(code_cells(notebook), start=1)
    )
