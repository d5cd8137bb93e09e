"""Metrics of one rank: `log` only notes the value; a thread writes it down, so the training never waits for a disk.

The same thread flushes standard output and error, so that a `print` without a newline is soon in the log.
"""

from __future__ import annotations

import operator
import os
import sys
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from jtrain.store.series import Points, SeriesWriter, as_points
from jtrain.worker.values import DeviceValue, read_value

MAX_WAITING = 500_000
"""Values that may wait for the thread (about 100 MB); beyond that, the oldest are dropped."""

MAX_HELD = 1_000_000
"""Points kept in memory (24 MB) while the disk takes none; beyond that, every second one of each metric is dropped."""

_STEP_LIMIT = 2**63


def _print_notice(sentence: str) -> None:
    print(f"jtrain: {sentence}", file=sys.stderr)


class Recorder:
    """Writes the metrics of one rank to `folder`. Its thread starts at the first value, in the process that logs.

    `on_notice` is told, once each, that metrics can't be written and that they are written again;
    by default the sentence is printed. In a forked child (a DataLoader worker) `log` does nothing but warn once:
    the metrics belong to the rank.
    """

    def __init__(
        self, folder: Path, flush_interval_s: float = 0.05, *, on_notice: Callable[[str], None] = _print_notice
    ) -> None:
        self.folder = folder
        self._flush_interval_s = flush_interval_s
        self._on_notice = on_notice
        self._writer = SeriesWriter(folder)
        self._names: set[str] = set()
        self._waiting: deque[tuple[str, int, float, float | DeviceValue]] = deque(maxlen=MAX_WAITING)
        self._held: dict[str, Points] = {}
        self.latest: dict[str, float] = {}
        """The last value of each metric, as of the last flush."""
        self._is_failing = False
        self._owner_pid = os.getpid()
        self._has_fork_hooks = False
        self._has_warned = False
        self._renew()

    def _renew(self) -> None:
        """Lock, event and thread are made anew after a fork, since the child's copies may be held by nobody."""
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def log(self, name: str, value: object, step: int) -> None:
        """Note that the metric `name` is `value` at `step` (any whole number; may repeat or go backwards).

        Never waits for a device. Raises TypeError or ValueError, naming the metric, when `value` isn't one number,
        `step` isn't a whole number of 64 bits, or `name` isn't a text.
        """
        if (
            type(value) is not float
            or type(step) is not int
            or type(name) is not str
            or name not in self._names
            or not -_STEP_LIMIT <= step < _STEP_LIMIT
        ):
            name, value, step = self._checked(name, value, step)
        self._waiting.append((name, step, time.time(), value))
        if self._thread is None:
            self._start()

    def _checked(self, name: Any, value: object, step: Any) -> tuple[str, float | DeviceValue, int]:
        if not isinstance(name, str) or not name:
            raise TypeError(f"a metric's name is a text that isn't empty, not {name!r}")
        # Half of a surrogate pair can't be written to a file.
        name = str(name).encode(errors="replace").decode()
        try:
            whole = operator.index(step)
        except TypeError:
            raise TypeError(f"metric {name!r}: step is {step!r}, but must be a whole number") from None
        if not -_STEP_LIMIT <= whole < _STEP_LIMIT:
            raise ValueError(f"metric {name!r}: step {whole} doesn't fit into 64 bits")
        self._names.add(name)
        return name, read_value(name, value), whole

    def _start(self) -> None:
        if os.getpid() != self._owner_pid:
            self._waiting.clear()
            if not self._has_warned:
                self._has_warned = True
                warnings.warn("metrics logged in a DataLoader worker are ignored: log in the loop", stacklevel=3)
            return
        if not self._has_fork_hooks:
            self._has_fork_hooks = True
            self._hook_forks()
        self._thread = threading.Thread(target=self._run, args=(self._closing,), name="jtrain-recorder", daemon=True)
        self._thread.start()

    def _hook_forks(self) -> None:
        """No fork while the thread holds locks of files or of the standard streams."""
        reference = weakref.ref(self)

        def with_recorder(action: Callable[[Recorder], object]) -> Callable[[], None]:
            def hook() -> None:
                recorder = reference()
                if recorder is not None:
                    action(recorder)

            return hook

        os.register_at_fork(
            before=with_recorder(lambda recorder: recorder._lock.acquire()),
            after_in_parent=with_recorder(lambda recorder: recorder._lock.release()),
            after_in_child=with_recorder(Recorder._forget),
        )

    def _forget(self) -> None:
        self._renew()
        self._waiting.clear()
        self._held.clear()

    def _run(self, closing: threading.Event) -> None:
        while not closing.wait(self._flush_interval_s):
            self.flush(wait=False)

    def flush(self, *, wait: bool = True) -> None:
        """Write what has been logged; with `wait`, also what a device is still computing."""
        with self._lock:
            self._collect(wait)
            self._write()
            for stream in (sys.stdout, sys.stderr):
                _flush_stream(stream)

    def close(self) -> None:
        """Write everything and end the thread. May be called again; a later `log` starts anew."""
        if os.getpid() != self._owner_pid:
            return
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()
        self._closing, self._thread = threading.Event(), None

    def _collect(self, wait: bool) -> None:
        """Take what waits, in order, up to the first value that its device has not computed yet."""
        taken: dict[str, list[tuple[int, float, float]]] = {}
        for _ in range(len(self._waiting)):
            name, step, logged, value = self._waiting[0]
            if not isinstance(value, float):
                if not wait and not value.is_ready():
                    break
                value = value.read()
            self._waiting.popleft()
            taken.setdefault(name, []).append((step, logged, value))
        for name, points in taken.items():
            self.latest[name] = points[-1][2]
            new = as_points(points)
            self._held[name] = np.concatenate([self._held[name], new]) if name in self._held else new

    def _write(self) -> None:
        try:
            for name, points in list(self._held.items()):
                written = self._writer.append(name, points)
                if written < len(points):
                    self._held[name] = points[written:]
                else:
                    del self._held[name]
        except OSError as error:
            self._keep(error)
            return
        if self._is_failing and not self._held:
            self._is_failing = False
            self._on_notice("metrics are written again")

    def _keep(self, error: OSError) -> None:
        """The disk took nothing: keep the points for the next try, but not without limit."""
        if sum(map(len, self._held.values())) > MAX_HELD:
            self._held = {name: points[::2] for name, points in self._held.items()}
        if not self._is_failing:
            self._is_failing = True
            self._on_notice(
                f"metrics can't be written to {self.folder} ({error.strerror or error}); training goes on, "
                "they are kept in memory and written as soon as there is room"
            )


def _flush_stream(stream: Any) -> None:
    """Flush what may be a file, a closed file, None, or an object of the user's that has replaced the stream."""
    try:
        stream.flush()
    except Exception:  # noqa: BLE001 - the stream may be the user's own object, and its failure is not the metrics'
        return
