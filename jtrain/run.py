"""`Run`: the handle on one run, from anywhere.

It reads the run's folder and leaves wishes in its inbox; it owns nothing.
"""

from __future__ import annotations

import getpass
import secrets
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrain.domain.spec import RunSpec
from jtrain.domain.states import ALIVE, RESUMABLE, RESUME_TOKEN, Event, Standing, State, fold
from jtrain.errors import CheckpointError, JtrainError, RunNotFoundError, WorkerError
from jtrain.store.beginnings import read_start
from jtrain.store.checkpoints import CheckpointInfo, list_checkpoints
from jtrain.store.files import FileLock, is_locked, read_lines, read_record
from jtrain.store.inbox import Command, put, take
from jtrain.store.journal import Journal, read_events
from jtrain.store.logs import tail
from jtrain.store.metric_table import AttemptSeries, MetricTable
from jtrain.store.paths import AttemptPaths, RunPaths
from jtrain.store.progress import Progress, ProgressMeter
from jtrain.store.runs import RunStore, is_interrupted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POLL_S = 0.05


class Run:
    """One run of a store.

    Two handles on the same run are alike: nothing is kept here that isn't in the run's folder.
    """

    def __init__(self, run_id: str, store: RunStore | None = None) -> None:
        self.store = store or RunStore()
        self.paths: RunPaths = self.store.find(run_id)
        self._spec: RunSpec | None = None
        self._meter: tuple[int, ProgressMeter] | None = None

    @property
    def id(self) -> str:
        return self.paths.id

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def spec(self) -> RunSpec:
        """Everything needed to start the run again; never changes."""
        if self._spec is None:
            self._spec = self.store.read_spec(self.id)
        return self._spec

    # How it stands ---------------------------------------------------------------------------------------------

    def events(self, after: int = 0) -> list[Event]:
        """Facts of the journal with a number above `after`."""
        return read_events(self.paths.journal, after)

    @property
    def standing(self) -> Standing:
        """State, reason, times, attempt and devices, folded from the journal."""
        return fold(self.events())

    @property
    def state(self) -> State:
        return self.standing.state

    @property
    def reason(self) -> str:
        """Why it is in that state, or what it waits for."""
        return self.standing.reason

    @property
    def is_interrupted(self) -> bool:
        """Whether its supervisor died while the run was alive; `resume` goes on."""
        standing = self.standing
        return is_interrupted(self.paths, standing.state, standing.since)

    @property
    def shown_state(self) -> str:
        """The state in a word, "interrupted" when the supervisor died, "deleted" when the folder is gone."""
        if not self.paths.root.exists():
            return "deleted"
        return "interrupted" if self.is_interrupted else self.state.value

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing of the run lives any more: finished, failed, paused, stopped, or interrupted."""
        standing = self.standing
        if standing.state not in ALIVE:
            return not is_locked(self.paths.owner_lock)
        return is_interrupted(self.paths, standing.state, standing.since)

    @property
    def attempts(self) -> list[AttemptPaths]:
        """The files of each attempt, oldest first."""
        return [self.paths.attempt(number) for number in self.paths.attempt_numbers()]

    @property
    def progress(self) -> Progress:
        """How far the latest attempt is. Read it repeatedly on one handle for rates over the last ten seconds."""
        numbers = self.paths.attempt_numbers()
        if not numbers:
            return Progress()
        if self._meter is None or self._meter[0] != numbers[-1]:
            self._meter = (numbers[-1], ProgressMeter(self.paths.attempt(numbers[-1])))
        return self._meter[1].read()

    def notices(self, rank: int = 0) -> list[dict[str, Any]]:
        """What the latest attempt's `rank` had to say: dicts with `time`, `level` and `text`."""
        numbers = self.paths.attempt_numbers()
        return read_lines(self.paths.attempt(numbers[-1]).notices(rank))[0] if numbers else []

    def samples(self) -> list[dict[str, Any]]:
        """Readings of the machine, about one a second, over all attempts."""
        return [record for attempt in self.attempts for record in read_lines(attempt.samples)[0]]

    # What came out ---------------------------------------------------------------------------------------------

    @property
    def metrics(self) -> MetricTable:
        """Every metric that rank 0 logged: a table with one column per name."""
        starts = {event.data.get("attempt"): event.data for event in _starts(self.events())}
        series = []
        for attempt in self.attempts:
            start = read_start(attempt, starts.get(attempt.number, {}))
            series.append(AttemptSeries(attempt.number, attempt.metrics(0), start))
        return MetricTable(series)

    def logs(self, rank: int = 0, lines: int | None = None) -> str:
        """What `rank` printed, over all attempts; only the last `lines` when given. Escape codes are removed."""
        parts = [tail(attempt.log(rank), lines=lines) for attempt in self.attempts if attempt.log(rank).exists()]
        text = "".join(parts)
        return text if lines is None else "".join(text.splitlines(keepends=True)[-lines:])

    def plot(self, metrics: list[str] | None = None) -> Figure:
        """A matplotlib figure of the metrics (all when None)."""
        from jtrain.plots import plot_run

        return plot_run(self, metrics)

    def checkpoints(self) -> list[CheckpointInfo]:
        """The checkpoints there are, oldest first."""
        return list_checkpoints(self.paths)

    def pin(self, checkpoint: str, *, is_pinned: bool = True) -> None:
        """Keep `checkpoint` whatever newer ones come, besides those that `--keep` counts; with False no longer.

        Raises CheckpointError naming the nearest one, or saying why it can't be noted.
        """
        from jtrain.keeping import pin

        pin(self, checkpoint, is_pinned=is_pinned)

    def export(self, path: str | Path, checkpoint: str = "") -> list[Path]:
        """Write the model's weights in `checkpoint` (else the newest) to `path` as safetensors; returns the files.

        Several models get a number each: `model-0.safetensors`. Raises CheckpointError when the checkpoint is missing
        or damaged, or the file can't be written.
        """
        from jtrain.keeping import export

        return export(self, Path(path), checkpoint)

    @property
    def error(self) -> WorkerError | None:
        """Why the run failed, or None when it didn't."""
        if self.state is not State.FAILED:
            return None
        numbers = self.paths.attempt_numbers()
        exit_ = read_record(self.paths.attempt(numbers[-1]).exit) if numbers else {}
        return _worker_error(self, exit_)

    def outputs(self, namespace: dict[str, Any] | None = None) -> dict[str, Any]:
        """The values that the cell gave back (`-o`), by name. `namespace`: where classes of the notebook are looked up
        (default: the main program). Raises JtrainError when there are none yet."""
        from jtrain.capture.unpack import load_result

        if not self.paths.result.exists():
            raise JtrainError(f"run {self.id} has no results: it is {self.shown_state} ({self.reason})")
        return load_result(self.paths.result, vars(sys.modules["__main__"]) if namespace is None else namespace)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the run and return what it gave back: a function's return value, else a dict of the `-o` values.

        Raises WorkerError when it failed, TimeoutError after `timeout` seconds, JtrainError when it was paused or
        stopped.
        """
        self.wait(timeout)
        if (error := self.error) is not None:
            raise error
        if self.state is not State.FINISHED:
            raise JtrainError(
                f"run {self.id} has no result: it is {self.shown_state}; `%jtrain resume {self.id}` goes on"
            )
        values = self.outputs() if self.paths.result.exists() else {}
        return values.get("return") if self.spec.source.kind == "function" else values

    # Wishes ----------------------------------------------------------------------------------------------------

    def wait(self, timeout: float | None = None, on_poll: Callable[[], None] | None = None) -> State:
        """Wait until the run rests and return its state. Raises TimeoutError after `timeout` seconds, RunNotFoundError
        when its folder was deleted."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.is_at_rest:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"run {self.id} is still {self.state} after {timeout:g} s")
            if on_poll is not None:
                on_poll()
            time.sleep(_POLL_S)
        self._must_exist()
        self.store.note(self.id)
        return self.state

    def pause(self) -> None:
        """Ask the run for a checkpoint at its next batch, and to end there; `resume` goes on."""
        self._must_exist()
        if not self.is_at_rest:
            self._ask("pause")

    def checkpoint(self) -> None:
        """Ask a living run for a checkpoint at its next batch."""
        self._must_exist()
        if not self.is_at_rest:
            self._ask("checkpoint")

    def stop(self) -> None:
        """End the run now, without a checkpoint. An interrupted run is only marked as stopped."""
        self._must_exist()
        if not self.is_at_rest:
            self._ask("stop")
            return
        if self.state is State.PAUSED or self.state in ALIVE:
            self._mark_stopped()

    def _must_exist(self) -> None:
        if not self.paths.root.exists():
            raise RunNotFoundError(f"the folder of run {self.id} is gone: {self.paths.root}")

    def _ask(self, command: str) -> None:
        put(self.paths.inbox, Command(command, by=getpass.getuser()))

    def _mark_stopped(self) -> None:
        lock = FileLock(self.paths.owner_lock)
        if not lock.acquire():
            self._ask("stop")
            return
        try:
            journal = Journal(self.paths.journal)
            journal.write("stopped", reason=f"asked by {getpass.getuser()}", owner_lost=journal.state in ALIVE)
        finally:
            lock.close()
        self.store.note(self.id)

    def resume(self, *, gpus: object = None, nproc: int | None = None) -> Run:
        """Go on from the last good checkpoint (from the start when there is none), with the same spec.

        `gpus` and `nproc`: with other devices than before, as the options of the launch; also on another number of
        ranks it makes the same optimizer steps of the same samples. Raises CheckpointError for a run that has finished,
        JtrainError for one that is alive, OptionError or DeviceError for devices that can't be had.
        """
        from jtrain.engine.zygote import start
        from jtrain.resuming import other_devices

        self._must_exist()
        if not self.is_at_rest:
            raise JtrainError(f"run {self.id} is {self.state} already; `%jtrain attach {self.id}` shows it")
        state = self.state
        if state is State.FINISHED:
            raise CheckpointError(f"run {self.id} has finished; to train on, start a new run with --resume {self.id}")
        if state not in RESUMABLE and not self.is_interrupted:
            raise JtrainError(f"run {self.id} is {state} and can't be resumed")
        devices = other_devices(self, gpus, nproc)
        before = self.standing.last_event
        take(self.paths.inbox)  # what was wished of the supervisor that died: going on is the newer wish
        if devices is not None:
            put(self.paths.inbox, Command("devices", by=getpass.getuser(), data=devices))
        token = secrets.token_hex(8)
        start(self.paths.root, {RESUME_TOKEN: token})
        self._wait_for_owner(before, token)
        return self

    def _wait_for_owner(self, before: int, token: str, timeout_s: float = 60.0) -> None:
        """Wait until the new supervisor has said its first word. Raises JtrainError when somebody else's was first."""
        deadline = time.monotonic() + timeout_s
        while not (events := self.events(after=before)):
            if time.monotonic() > deadline:
                raise JtrainError(f"the supervisor of run {self.id} did not start; see {self.paths.supervisor_log}")
            time.sleep(0.01)
        first = events[0]
        if first.kind == "queued" and first.data.get("token", token) != token:
            raise JtrainError(
                f"run {self.id} was resumed by somebody else at the same moment; `%jtrain attach {self.id}` shows it"
            )

    # How it looks ----------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<Run {self.id}: {self.shown_state}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.paths.root == self.paths.root

    def __hash__(self) -> int:
        return hash(self.paths.root)

    def __reduce__(self) -> tuple[type[Run], tuple[str]]:
        return Run, (self.id,)


def _starts(events: Iterable[Event]) -> list[Event]:
    """The beginnings of attempts, without those that a damaged journal doesn't number."""
    return [event for event in events if event.state is State.STARTING and type(event.data.get("attempt")) is int]


def _worker_error(run: Run, exit_: dict[str, Any]) -> WorkerError:
    if not exit_ and not run.paths.attempt_numbers():
        return WorkerError(f"run {run.id} failed before it started: {run.reason}", run_id=run.id)
    error = exit_["error"] if isinstance(exit_.get("error"), dict) else {}
    others = exit_["others"] if isinstance(exit_.get("others"), list) else []
    return WorkerError(
        exit_.get("sentence") or run.reason,
        run_id=run.id,
        rank=exit_.get("rank"),
        type_name=error.get("type", ""),
        message=error.get("message", ""),
        traceback_text=error.get("text", ""),
        frames=error.get("frames", []),
        next_step=exit_.get("next_step", ""),
        others=others,
        causes=error.get("causes", []),
        sources={run.spec.source.filename: (run.spec.source.first_line, run.spec.source.text)},
    )


def runs(limit: int | None = None) -> list[Run]:
    """The runs of the store, newest first."""
    store = RunStore()
    return [Run(summary.id, store) for summary in store.list(limit)]


def last_run() -> Run:
    """The newest run. Raises RunNotFoundError when the store is empty."""
    found = runs(limit=1)
    if not found:
        raise RunNotFoundError(f"there are no runs in {RunStore().paths.root} yet")
    return found[0]


def open_run(root: Path) -> Run:
    """The run in the folder `root`."""
    return Run(root.name, RunStore(root.parent.parent))
