"""Every error that a person can meet.

JtrainError
 ├─ OptionError          an option, or a mix of options, that can't be
 │   └─ ConfigError      the same, in a YAML file (names file and line)
 ├─ CaptureError         something the cell uses can't travel to the workers
 │   └─ CellSyntaxError  the cell isn't a Python program
 ├─ DeviceError          devices asked for that this machine doesn't have
 ├─ LaunchError          the run could not be started
 ├─ StoreError           the store's folder can't be read or written
 │   └─ RunNotFoundError no such run
 ├─ CheckpointError      no checkpoint, or one that doesn't fit
 └─ WorkerError          the run's own code failed (carries rank and traceback)

RunInterrupted           a KeyboardInterrupt: the user stopped waiting for a run
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `word`, or None when none is close."""
    found = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.5)
    return found[0] if found else None


class JtrainError(Exception):
    """Base of all errors raised by jtrain; its text says what to do next."""


class OptionError(JtrainError, ValueError):
    """An option has a value that can't be, or is unknown."""


class ConfigError(OptionError):
    """A YAML file says something that can't be; the text names file and line."""


class CaptureError(JtrainError, TypeError):
    """What the cell uses can't be sent to the workers; the text names every such variable."""


class CellSyntaxError(CaptureError, SyntaxError):
    """The cell can't be compiled as a program; carries `filename`, `lineno`, `offset` and `text`."""


class DeviceError(JtrainError):
    """Devices were asked for that are not there."""


class LaunchError(JtrainError, RuntimeError):
    """The run could not be started."""


class StoreError(JtrainError, OSError):
    """The store can't be used; the text names the folder and `JTRAIN_HOME`."""


class RunNotFoundError(StoreError, LookupError):
    """There is no run of that name."""


class CheckpointError(JtrainError):
    """There is no such checkpoint, or it can't be used."""


class WorkerError(JtrainError, RuntimeError):
    """The code of a run failed.

    Fields: `run_id`, `rank` (None when no rank raised), `type_name` and `message` of the
    original exception, `traceback_text`, and `frames`: dicts with `file`, `line`,
    `function`, `text` (source line) and `user` (False for library code).
    `others` holds one sentence for each further rank that ended because of the first. `sources`: code that is in no
    file, by the name it has in `frames`: the number of its first line, and its text. `causes`: the exceptions that led
    to it, the first one first: dicts with `type`, `message`, `frames` and `is_direct` (it was raised `from` that one).
    """

    def __init__(
        self,
        sentence: str,
        *,
        run_id: str,
        rank: int | None = None,
        type_name: str = "",
        message: str = "",
        traceback_text: str = "",
        frames: list[dict[str, Any]] | None = None,
        next_step: str = "",
        others: list[str] | None = None,
        sources: Mapping[str, tuple[int, str]] | None = None,
        causes: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.run_id = run_id
        self.rank = rank
        self.type_name = type_name
        self.message = message
        self.traceback_text = traceback_text
        self.frames = frames or []
        self.next_step = next_step
        self.others = others or []
        self.sources = dict(sources or {})
        self.causes = causes or []

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the rank's own traceback."""
        from jtrain.traceback_view import render_worker_error

        return render_worker_error(self)


class RunInterrupted(KeyboardInterrupt):
    """Waiting for a run was interrupted; `run_id`, `state` and `sentence` say how it stands and how to go on."""

    def __init__(self, sentence: str, *, run_id: str = "", state: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.run_id = run_id
        self.state = state

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: no traceback, since nothing went wrong."""
        return [f"{type(self).__name__}: {self.sentence}"]
