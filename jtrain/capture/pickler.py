"""The pickler behind captures and results, and one that only looks for what can't travel."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import cloudpickle

from jtrain.capture.reducer import Reducer

_PROTOCOL = 5
_MOST_FRAMES = 20_000
"""The search is a chain of Python calls, which take no room on the processor's stack."""


class Output(Protocol):
    """Where a pickle goes."""

    def write(self, data: Any, /) -> object: ...


class Pickler(pickle.Pickler):
    """Pickles one value after the other; what two of them share stays shared."""

    dispatch_table = cloudpickle.Pickler.dispatch_table

    def __init__(self, output: Output, reducer: Reducer) -> None:
        super().__init__(output, _PROTOCOL, buffer_callback=reducer.regions.take)
        # The C pickler calls what it finds under this name.
        self.reducer_override = reducer.reduce  # type: ignore[method-assign]


@dataclass(frozen=True)
class Problem:
    """An object that can't be pickled: the objects on the way to it, itself last, and why."""

    trail: tuple[Any, ...]
    error: Exception

    @property
    def culprit(self) -> Any:
        return self.trail[-1]


def find_problems(value: object, reducer: Reducer) -> list[Problem]:
    """Everything in a value that can't be pickled. Raises RecursionError for a value that is nested too deeply."""
    search = _Search(reducer)
    with _deep_recursion():
        search.dump(value)
    return search.problems


class Nowhere:
    """Output that is only counted."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.size += size
        return size


class _Search(pickle._Pickler):
    """Python's own pickler written in Python: slower, but it can be watched, and goes on after an error."""

    dispatch_table = cloudpickle.Pickler.dispatch_table

    def __init__(self, reducer: Reducer) -> None:
        super().__init__(Nowhere(), _PROTOCOL, buffer_callback=reducer.regions.take)
        self.reducer_override = reducer.reduce  # type: ignore[method-assign]
        self.problems: list[Problem] = []
        self._trail: list[Any] = []

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        self._trail.append(obj)
        try:
            super().save(obj, save_persistent_id)  # type: ignore[misc]
        except RecursionError:
            raise
        except Exception as error:  # noqa: BLE001 - an object's own reduction may raise anything
            self.problems.append(Problem(tuple(self._trail), error))
        self._trail.pop()


@contextmanager
def _deep_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _MOST_FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
