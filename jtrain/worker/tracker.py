"""`Accelerator(log_with="jtrain")`: an Accelerate script's own `accelerator.log` feeds the run's metrics."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker, get_available_trackers

from jtrain.store.files import write_atomic
from jtrain.worker.recorder import Recorder

NAME = "jtrain"


class JtrainTracker(GeneralTracker):
    """Writes what `accelerator.log` is given to the run's metrics.

    Nested dicts become names with slashes. A value that isn't one number is left out with a warning, once per name:
    an unchanged script must not fail because of what it tells its trackers. Without `step` the calls are counted.
    """

    name = NAME
    requires_logging_directory = False

    def __init__(self, project_name: str, recorder: Recorder, config_file: Path) -> None:
        super().__init__()
        self.project_name = project_name
        self._recorder = recorder
        self._config_file = config_file
        self._next_step = 0
        self._refused: set[str] = set()

    @property
    def tracker(self) -> Recorder:
        return self._recorder

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Keep the script's configuration beside the metrics, as JSON; what JSON doesn't know is kept as text."""
        record = {"project": self.project_name, "config": values}
        write_atomic(self._config_file, json.dumps(record, default=str, ensure_ascii=False, indent=1))

    def log(self, values: dict[str, Any], step: int | None = None, **_: Any) -> None:
        """Record every number in `values` at `step`."""
        step = self._next_step if step is None else step
        for name, value in _flatten(values):
            try:
                self._recorder.log(name, value, step)
            except (TypeError, ValueError) as error:
                self._refuse(name, error)
        self._next_step = int(step) + 1

    def _refuse(self, name: str, error: Exception) -> None:
        if name not in self._refused:
            self._refused.add(name)
            warnings.warn(f"not recorded by jtrain: {error}", stacklevel=4)

    def finish(self) -> None:
        """Write what has been logged so far; the run goes on."""
        self._recorder.flush()


def _flatten(values: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{name}/")
        else:
            yield name, value


def install_tracker(recorder: Recorder, config_file: Path) -> None:
    """Make `log_with="jtrain"` (and "all") mean this process's `recorder`; the configuration goes to `config_file`."""

    class RunTracker(JtrainTracker):
        def __init__(self, project_name: str = "", **_: Any) -> None:
            super().__init__(project_name, recorder, config_file)

    # Not through `register_tracker_class`, which warns when the name is there already: it may be, from a parent.
    LOGGER_TYPE_TO_CLASS[NAME] = RunTracker
    available = get_available_trackers()
    if NAME not in available:
        available.append(NAME)
