"""`run` inside a cell: one rank's handle on its run."""

from __future__ import annotations

import builtins
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from accelerate import Accelerator
from accelerate.state import GradientState
from accelerate.utils import GradientAccumulationPlugin

from jtrain.checkpointing.checkpointer import Checkpointer
from jtrain.checkpointing.retention import Retention
from jtrain.domain.checkpoints import Position
from jtrain.domain.spec import RunSpec
from jtrain.domain.worker import WorkerContext
from jtrain.options import RunOptions
from jtrain.store.beginnings import note_start
from jtrain.store.digests import digest_of
from jtrain.store.files import append_line
from jtrain.store.paths import AttemptPaths, RunPaths
from jtrain.store.ranks import RankTable
from jtrain.worker.course import Course
from jtrain.worker.loop import Loop
from jtrain.worker.recorder import Recorder
from jtrain.worker.saving import Saver
from jtrain.worker.state import TrainingState, check_registrable
from jtrain.worker.tracker import NAME as TRACKER

_LONGEST_WRITE = timedelta(days=1)
"""How long ranks wait for one that is still writing its part of a checkpoint."""


class Config(dict[str, Any]):
    """The run's configuration: `run.config["lr"]` or `run.config.lr`."""

    def __getattr__(self, name: str) -> Any:
        try:
            value = self[name]
        except KeyError:
            raise AttributeError(f"the config has no {name!r}; it has {', '.join(self) or 'nothing'}") from None
        return Config(value) if isinstance(value, dict) else value


class WorkerRun:
    """One rank's handle. `rank` and `world_size` are global; `config` is what `--config` and `--set` gave."""

    def __init__(self, context: WorkerContext, spec: RunSpec, paths: RunPaths, table: RankTable) -> None:
        self.id = spec.id
        self.rank = context.rank
        self.local_rank = context.local_rank
        self.world_size = context.world_size
        self.config = Config(spec.config)
        self._spec = spec
        self._paths = paths
        self._table = table
        self._attempt: AttemptPaths = paths.attempt(context.attempt)
        self._accelerator: Accelerator | None = None
        self._checkpointer: Checkpointer | None = None
        self.recorder = Recorder(
            self._attempt.metrics(self.rank), on_notice=lambda sentence: self.notify("warning", sentence)
        )
        options = spec.options
        state = TrainingState()
        self.saver = Saver(
            lambda: self.accelerator,
            table,
            self.rank,
            state,
            self._make_checkpointer,
            self.recorder,
            self.notify,
            is_regular=self._checkpoints_regularly,
        )
        self.course = Course(
            lambda: self.accelerator,
            table,
            self.rank,
            state,
            saver=self.saver,
            recorder=self.recorder,
            notify=self.notify,
            resume_from=context.resume_from,
            went_on=self._note_start,
            who={"run": spec.id, "attempt": context.attempt},
            every_steps=options.checkpoint_every_steps,
        )
        self.loop = Loop(
            lambda: self.accelerator, self.course, self.recorder, seed=spec.seed, clip_grad=options.clip_grad
        )

    @property
    def accelerator(self) -> Accelerator:
        """The cell's own `accelerate.Accelerator` if it has made one, else one made at first use.

        Precision, accumulation and devices are the run's; `accelerator.log` feeds the run's metrics.
        """
        if self._accelerator is None:
            self._accelerator = _accelerator_of_cell() or _make_accelerator()
        return self._accelerator

    def _make_checkpointer(self) -> Checkpointer:
        if self._checkpointer is None:
            self._checkpointer = Checkpointer(
                self._paths,
                _Ranks(self),
                self._table,
                _retention(self._spec.options),
                attempt=self._attempt.number,
                spec=digest_of(self._paths.spec),
                keeps_memory=self._checkpoints_regularly,
                on_problem=self.saver.tell_of_failure,
            )
        return self._checkpointer

    @property
    def _checkpoints_regularly(self) -> bool:
        options = self._spec.options
        return bool(options.checkpoint_every_steps or options.checkpoint_every_s)

    # The loop --------------------------------------------------------------------------------------------------

    def prepare(self, *objects: Any) -> Any:
        """Models, optimizers, schedulers and DataLoaders made ready for this rank, in the order given.

        As `Accelerator.prepare`; besides, the order and content of a loader's batches become a function of the run's
        seed, so that a resumed run goes on with exactly the batches that were left.
        """
        return self.loop.prepare(*objects)

    def batches(self, loader: Any, epochs: int = 1) -> Iterator[Any]:
        """This rank's batches of `loader`, `epochs` times over, on its device.

        Between two batches the run can be paused and checkpoints are written. On resuming, calls that were done yield
        nothing, and the one that was interrupted goes on after its last batch. Inside the body of another `batches`
        loop (validation) it only yields.
        """
        if not isinstance(epochs, int) or epochs < 0:
            raise ValueError(f"epochs is a number from 0 on, not {epochs!r}")
        return self.loop.batches(loader, epochs)

    def epochs(self, count: int) -> Iterator[int]:
        """0 to `count` - 1, for an outer loop around `batches`; a resumed run begins with the epoch it was in."""
        return self.loop.epochs(count)

    def step(self, loss: torch.Tensor) -> None:
        """Backward with accumulation; then clip, optimizer, scheduler, zero the gradients, and log `loss`."""
        self.loop.step(loss)

    @property
    def should_stop(self) -> bool:
        """For loops without `batches`: read it once per step on all ranks. True when all of them should leave the loop
        now, because the run is being paused; the checkpoint has been written then. In the body of `batches`, which
        stops by itself, it is False."""
        return self.loop.should_stop()

    @property
    def global_step(self) -> int:
        """Optimizer steps so far."""
        return self.course.position.step

    @property
    def epoch(self) -> int:
        """The epoch of the current `batches` or `epochs` loop, from 0."""
        position = self.course.position
        return position.epoch if position.outer is None else position.outer

    # What it says ----------------------------------------------------------------------------------------------

    def log(self, values: Mapping[str, Any] | None = None, /, *, step: int | None = None, **named: Any) -> None:
        """Record metrics: `run.log(loss=loss)` or `run.log({"val/accuracy": a})`, at `step` (default: `global_step`).

        Values are numbers or tensors of one element, on any device; the device isn't waited for. While a resumed cell
        is on its way back to its checkpoint nothing is recorded: it was the first time. Raises TypeError or ValueError
        naming the metric.
        """
        if self.course.is_silent:
            return
        if values is not None and not isinstance(values, Mapping):
            raise TypeError(f"run.log takes names with their values, as in run.log(loss=loss), not {values!r:.40}")
        at = self.course.position.step if step is None else step
        for group in (values, named) if values else (named,):
            for name, value in group.items():
                self.recorder.log(name, value, at)

    def print(self, *values: Any, **options: Any) -> None:
        """`print` on rank 0 only."""
        if self.rank == 0:
            builtins.print(*values, **options)

    def notify(self, level: str, text: str) -> None:
        """A notice for whoever watches the run; also printed to this rank's log."""
        builtins.print(f"jtrain: {text}", flush=True)
        record = {"time": time.time(), "level": level, "text": text}
        try:
            append_line(self._attempt.notices(self.rank), record)
        except OSError as error:
            builtins.print(f"jtrain: (the notice above could not be kept: {error})", flush=True)

    def _note_start(self, position: Position) -> None:
        if self.rank != 0:
            return
        try:
            note_start(self._attempt, self.id, position)
        except OSError as error:
            self.notify("warning", f"what was trained twice will show twice in the metrics: {error}")

    # Checkpoints -----------------------------------------------------------------------------------------------

    def checkpoint(self, *, wait: bool = False) -> str | None:
        """Take a checkpoint; all ranks must call it. The state is copied now, and written while the training goes on.

        Returns the name that it will have. With `wait` only when it is complete, and None if it could not be written;
        without, a notice tells of that. If the one before is still being written, it is waited for. In the body of
        `batches` it is taken once the batch is over, so that going on from it is exact, and None is returned: the name
        is in `Run.checkpoints()`.
        """
        return self.course.checkpoint(wait=wait)

    def register(self, name: str, value: Any) -> Any:
        """Make `value` part of the checkpoints: an object with `state_dict` and `load_state_dict`, or a list, dict, set
        or deque, which is filled in place. Call it before the loop. Returns `value`."""
        check_registrable(name, value)
        registered = self.course.state.registered
        if name in registered and registered[name] is not value:
            raise ValueError(f"{name!r} is registered already")
        registered[name] = value
        return value

    def __reduce__(self) -> Any:
        raise TypeError("run is this rank's own and can't be sent to another process or saved")

    def __repr__(self) -> str:
        return f"<run {self.id}: rank {self.rank} of {self.world_size}>"


class _Ranks:
    """All ranks, for the checkpointer."""

    def __init__(self, run: WorkerRun) -> None:
        self.rank = run.rank
        self.size = run.world_size
        self._run = run
        self._group: Any = None

    def all_agree(self, is_fine: bool) -> bool:
        if self.size == 1:
            return is_fine
        flag = torch.tensor([int(is_fine)])
        torch.distributed.all_reduce(flag, group=self._join())
        return int(flag.item()) == self.size

    def _join(self) -> Any:
        """A group on the CPU: on GPUs NCCL would give up on ranks that wait while another one writes."""
        if self._group is None:
            if not torch.distributed.is_initialized():
                self._run.accelerator.wait_for_everyone()
            self._group = torch.distributed.new_group(backend="gloo", timeout=_LONGEST_WRITE)
        return self._group


def _retention(options: RunOptions) -> Retention:
    metric, is_max, best = options.best_by
    return Retention(options.keep, metric, is_max, best, options.keep_every_s)


def _accelerator_of_cell() -> Accelerator | None:
    """The first Accelerator among the main program's variables."""
    values = list(sys.modules["__main__"].__dict__.values())
    return next((value for value in values if isinstance(value, Accelerator)), None)


def _make_accelerator() -> Accelerator:
    accumulation = None
    if GradientState._shared_state:  # made by an Accelerator that a function of the cell keeps: its setting stays
        accumulation = GradientAccumulationPlugin(**GradientState().plugin_kwargs)
    accelerator = Accelerator(log_with=TRACKER, gradient_accumulation_plugin=accumulation)
    accelerator.init_trackers(TRACKER)
    return accelerator
