"""The training loop behind `run.prepare`, `run.batches` and `run.step`.

for epoch:                     a pause or checkpoint that is due falls
    for batch:  ── yield ──►   between two batches, at a boundary that
        the cell's own code    all ranks agree on (store/ranks.py)
    ◄── boundary ──
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import find_batch_size
from torch.utils.data import DataLoader

from jtrain.domain.checkpoints import Position
from jtrain.errors import CheckpointError
from jtrain.store.ranks import RankTable, Request
from jtrain.worker.checkpointer import Checkpointer, Loaded
from jtrain.worker.data import Feed, prepare_loader
from jtrain.worker.recorder import Recorder
from jtrain.worker.state import TrainingState

Notify = Callable[[str, str], None]
"""Called with a level ("info", "warning") and a sentence."""


class Paused(BaseException):
    """Unwinds the cell after a pause checkpoint; `finally` and `with` blocks of the cell run."""


class Loop:
    """Position, state and boundaries of one rank's training."""

    def __init__(
        self,
        accelerator: Callable[[], Accelerator],
        table: RankTable,
        rank: int,
        *,
        seed: int,
        checkpointer: Callable[[], Checkpointer],
        recorder: Recorder,
        notify: Notify,
        resume_from: str | None,
        clip_grad: float | None,
        every_steps: int | None,
    ) -> None:
        self._accelerator = accelerator
        self._table = table
        self._rank = rank
        self._row = table.row(rank)
        self._seed = seed
        self._checkpointer = checkpointer
        self._recorder = recorder
        self._notify = notify
        self._clip_grad = clip_grad
        self._every_steps = every_steps
        self._resume_from = resume_from
        self._loaded: Loaded | None = None
        self.state = TrainingState()
        self.position = Position()
        self._feeds: list[Feed] = []
        self._raw: dict[int, tuple[Any, Any]] = {}
        """Loaders given to `batches` unprepared, by identity, and what was made of them."""
        self._next_loop = 0
        self._depth = 0
        self._boundary = 0
        self._window: list[torch.Tensor] = []
        self._stepped = False
        self.has_paused = False
        """Whether `should_stop` told the cell to leave its loop."""

    @property
    def is_replaying(self) -> bool:
        """Whether the cell is on its way back to where the checkpoint was taken."""
        return self._resume_from is not None

    def _pending(self) -> Position | None:
        """Where the cell has to go on, while it hasn't got there; the checkpoint is read at the first call."""
        if self._resume_from is None:
            return None
        if self._loaded is None:
            self._loaded, name, problems = self._checkpointer().load(self._resume_from)
            for problem in problems:
                self._notify("warning", f"checkpoint skipped: {problem}")
            self._resume_from = name
        return self._loaded.position

    # Preparing -------------------------------------------------------------------------------------------------

    def prepare(self, *objects: Any) -> Any:
        """Make models, optimizers, schedulers and loaders ready for this rank; returns them in the same order."""
        accelerator = self._accelerator()
        loaders = {i: thing for i, thing in enumerate(objects) if isinstance(thing, DataLoader)}
        rest = [thing for i, thing in enumerate(objects) if i not in loaders]
        prepared = accelerator.prepare(*rest) if rest else ()
        others = iter(prepared if len(rest) > 1 else (prepared,) if rest else ())
        result = [self._prepare_loader(thing) if i in loaders else next(others) for i, thing in enumerate(objects)]
        for thing in result:
            self._remember(thing)
        return result[0] if len(result) == 1 else tuple(result)

    def _prepare_loader(self, loader: DataLoader[Any]) -> Any:
        if getattr(loader, "_is_accelerate_prepared", False):
            return loader
        accelerator = self._accelerator()
        prepared = prepare_loader(loader, accelerator, self._seed + len(self._feeds))
        if prepared not in accelerator._dataloaders:
            accelerator._dataloaders.append(prepared)
        self._feeds.append(Feed(prepared, self._seed + len(self._feeds)))
        return prepared

    def _remember(self, thing: Any) -> None:
        if isinstance(thing, torch.nn.Module):
            self.state.models.append(thing)
        elif hasattr(thing, "optimizer") and hasattr(thing, "step_was_skipped"):
            self.state.optimizers.append(thing)
        elif hasattr(thing, "scheduler") and hasattr(thing, "get_last_lr"):
            self.state.schedulers.append(thing)

    def _feed_of(self, loader: Any) -> Feed:
        for feed in self._feeds:
            if feed.loader is loader:
                return feed
        if isinstance(loader, DataLoader) and not getattr(loader, "_is_accelerate_prepared", False):
            _, prepared = self._raw.setdefault(id(loader), (loader, None))
            if prepared is None:
                prepared = self._prepare_loader(loader)
                self._raw[id(loader)] = (loader, prepared)
            return self._feed_of(prepared)
        feed = Feed(loader, self._seed + len(self._feeds))
        self._feeds.append(feed)
        return feed

    # Looping ---------------------------------------------------------------------------------------------------

    def epochs(self, count: int) -> Iterator[int]:
        """0 to `count` - 1; a resumed run begins with the iteration it was in."""
        first = 0
        pending = self._pending()
        if pending is not None and pending.outer is not None:
            first, self._next_loop = pending.outer, pending.outer_loop
        for epoch in range(first, count):
            self.position.outer, self.position.outer_loop = epoch, self._next_loop
            yield epoch
        self.position.outer = None

    def batches(self, loader: Any, epochs: int) -> Iterator[Any]:
        """Batches of `loader`, `epochs` times; see `WorkerRun.batches`."""
        if self._depth:
            yield from self._nested(loader, epochs)
            return
        feed = self._feed_of(loader)
        loop = self._next_loop
        self._next_loop += 1
        first_epoch, first_batch = 0, 0
        pending = self._pending()
        if pending is not None:
            if loop < pending.loop:
                return
            self._restore()
            first_epoch, first_batch = self.position.epoch, self.position.batch
        self.position.loop = loop
        self._begin(feed, epochs)
        self._depth += 1
        try:
            for epoch in range(first_epoch, epochs):
                self.position.epoch, self._row.epoch = epoch, epoch
                yield from self._epoch(feed, first_batch)
                first_batch = 0
        finally:
            self._depth -= 1

    def _nested(self, loader: Any, epochs: int) -> Iterator[Any]:
        """A loop inside the body of another, say validation: no place to stop or to resume at."""
        feed = self._feed_of(loader)
        for _ in range(epochs):
            yield from feed.iterate(0)

    def _epoch(self, feed: Feed, first_batch: int) -> Iterator[Any]:
        accelerator, position, row = self._accelerator(), self.position, self._row
        position.batch = row.batch = first_batch
        models = self.state.models
        for batch in feed.iterate(first_batch):
            with accelerator.accumulate(*models):
                yield batch
            position.batch += 1
            position.micro_step += 1
            row.batch, row.micro_step, row.step = position.batch, position.micro_step, position.step
            row.samples += _size(batch)
            row.heartbeat = time.time()
            self.boundary()

    def _begin(self, feed: Feed, epochs: int) -> None:
        row, num_batches = self._row, feed.num_batches()
        row.epochs, row.num_batches = epochs, num_batches
        row.total_steps = -(-epochs * num_batches // self._accelerator().gradient_accumulation_steps)
        row.loop_micro_step, row.loop_samples = row.micro_step, row.samples
        row.loop_started = row.heartbeat = time.time()

    # Stepping --------------------------------------------------------------------------------------------------

    def step(self, loss: torch.Tensor) -> None:
        """Backward; on the last batch of an accumulation also clip, update, schedule and log."""
        accelerator = self._accelerator()
        accelerator.backward(loss)
        self._window.append(loss.detach())
        is_update = accelerator.sync_gradients
        if is_update and self._clip_grad is not None:
            for model in self.state.models:
                accelerator.clip_grad_norm_(model.parameters(), self._clip_grad)
        for optimizer in self.state.optimizers:
            optimizer.step()
        for scheduler in self.state.schedulers:
            scheduler.step()
        for optimizer in self.state.optimizers:
            optimizer.zero_grad()
        if is_update:
            self._updated()

    def _updated(self) -> None:
        self.position.step += 1
        self._stepped = True
        window, self._window = self._window, []
        loss = window[0] if len(window) == 1 else torch.stack(window).mean()
        step = self.position.step
        self._recorder.log("loss", loss, step)
        if loss.device.type == "cpu":
            self._row.loss = loss.item()
        if self.state.schedulers:
            self._recorder.log("learning_rate", float(self.state.schedulers[0].get_last_lr()[0]), step)

    # Boundaries ------------------------------------------------------------------------------------------------

    def boundary(self) -> None:
        """Between two batches: fulfil what is asked for or due."""
        self._boundary += 1
        request = self._table.boundary(self._rank, self._boundary)
        if request is Request.PAUSE:
            self._pause()
        elif request is Request.CHECKPOINT or self._is_due():
            self.checkpoint()
        self._stepped = False

    def should_stop(self) -> bool:
        """A boundary for a loop of the cell's own: whether all ranks stop here (the checkpoint is then written)."""
        if self._pending() is not None:
            self._restore()
        self._boundary += 1
        self._row.heartbeat = time.time()
        request = self._table.boundary(self._rank, self._boundary)
        if request is Request.CHECKPOINT:
            self.checkpoint()
        if request is not Request.PAUSE:
            return False
        self.has_paused = self._save_for_pause()
        return self.has_paused

    def _is_due(self) -> bool:
        return bool(self._stepped and self._every_steps and self.position.step % self._every_steps == 0)

    def _pause(self) -> None:
        if self._save_for_pause():
            raise Paused

    def _save_for_pause(self) -> bool:
        try:
            self._save()
        except CheckpointError as error:
            self._row.refused = self._row.served
            self._notify("warning", f"not paused, since nothing would be left to go on from: {error}")
            return False
        return True

    def checkpoint(self) -> str | None:
        """Write one now; called by all ranks. A disk that takes none doesn't end the training: None, and a notice."""
        if self.is_replaying:
            return None
        try:
            return self._save()
        except CheckpointError as error:
            self._notify("warning", f"{error}; training goes on, the last good checkpoint is kept")
            return None

    def _save(self) -> str:
        accelerator = self._accelerator()
        position = self.position
        position.phase = 0 if accelerator.sync_gradients else accelerator.step
        position.data_epochs = [feed.epoch for feed in self._feeds]
        shared = self.state.shared(accelerator) if self._rank == 0 else None
        self._recorder.flush()
        return self._checkpointer().save(position, shared, self.state.own(accelerator, self._window))

    def _restore(self) -> None:
        loaded, name = self._loaded, self._resume_from
        if loaded is None:
            return
        self._loaded = self._resume_from = None
        self._window = self.state.restore(self._accelerator(), loaded.shared, loaded.own)
        self.position = loaded.position
        for feed, epoch in zip(self._feeds, loaded.position.data_epochs, strict=False):
            feed.epoch = epoch
        self._row.step, self._row.micro_step = self.position.step, self.position.micro_step
        self._notify("info", f"went on from {name}: step {self.position.step}, epoch {self.position.epoch + 1}")

    def finish(self) -> None:
        """At the end of the cell: a checkpoint that was never reached is said to be unused."""
        if self.is_replaying:
            self._notify("warning", "the checkpoint was not used: the cell never came to the loop it was taken in")


def _size(batch: Any) -> int:
    with contextlib.suppress(TypeError, IndexError, StopIteration):
        return int(find_batch_size(batch) or 0)
    return 0
