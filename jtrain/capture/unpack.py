"""Brings captured values into a worker, and results back into the notebook."""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jtrain.capture import rebuild
from jtrain.capture.payload import Loader, Payload
from jtrain.errors import CaptureError

DEFINITIONS = "definitions"
"""In a result: the folder with what the notebook had defined of the classes and functions in it."""


@dataclass(frozen=True)
class Captured:
    """What came out of a payload: variables by name, and the texts of the notebook cells that functions are from."""

    values: dict[str, Any]
    sources: dict[str, str]


def read_sources(payload: Path) -> dict[str, str]:
    """The texts of the notebook's cells that functions in a payload are from, by file name. Raises CaptureError."""
    return Payload.open(payload).index["sources"]


def unpack(payload: Path, main: dict[str, Any]) -> Captured:
    """Load a payload into `main`, the namespace of this process's main program.

    Arrays and tensors are mapped from the file, privately: they can be written to, nobody else sees that, and only
    pages that are touched take memory. Raises CaptureError for a payload that is damaged, and whatever the import of a
    module raises that the cell uses.
    """
    opened = Payload.open(payload)
    for name in opened.index["imports"]:
        importlib.import_module(name)
    main.update({name: rebuild.STAND_INS[name] for name in opened.index["stand_ins"]})
    values = {}
    with opened.loader({"main_globals": lambda: main}, is_mapped=True) as loader:
        for name in opened.index["names"]:
            try:
                values[name] = main[name] = loader.load()
            except Exception as error:
                error.add_note(f"(while the notebook's variable {name!r} was made anew in the worker)")
                raise
    return Captured(values, opened.index["sources"])


def load_result(folder: Path, main: dict[str, Any]) -> dict[str, Any]:
    """The values of a result folder. They are copied: the folder may go.

    Classes and functions of the notebook are looked up in `main`; where a new kernel doesn't have them, they come from
    the result. Raises CaptureError for a folder that is damaged.
    """
    opened = Payload.open(folder)
    own = _Definitions(main, folder / DEFINITIONS)
    with opened.loader({"notebook_definition": own.find}, is_mapped=False) as loader:
        return {name: _load(loader, name, folder) for name in opened.index["names"]}


def _load(loader: Loader, name: str, folder: Path) -> Any:
    try:
        return loader.load()
    except CaptureError:
        raise
    except Exception as error:  # a damaged pickle, or an object that can't be made here, may raise anything
        raise CaptureError(
            f"the result {name!r} can't be made from {folder}, which is damaged or needs what this notebook doesn't "
            f"have: {type(error).__name__}: {error}"
        ) from error


class _Definitions:
    """What a notebook defines; for a notebook that doesn't, what it defined when the run was started."""

    def __init__(self, main: dict[str, Any], folder: Path) -> None:
        self._main = main
        self._folder = folder
        self._loaded: dict[str, Any] | None = None

    def find(self, qualname: str) -> Any:
        name, *rest = qualname.split(".")
        for variables in (lambda: self._main, self._from_result):
            try:
                return functools.reduce(getattr, rest, variables()[name])
            except (KeyError, AttributeError):
                continue
        raise CaptureError(f"a result needs {qualname}, which this notebook doesn't define; run the cell that does")

    def _from_result(self) -> dict[str, Any]:
        if self._loaded is None:
            self._loaded = load_result(self._folder, {}) if self._folder.exists() else {}
        return self._loaded
