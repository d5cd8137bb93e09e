"""The training loop behind `run.prepare`, `run.batches` and `run.step`.

for epoch:                     a pause or checkpoint that is due falls
    for batch:  ── yield ──►   between two batches, at a boundary that
        the cell's own code    all ranks agree on (course.py, store/ranks.py)
    ◄── boundary ──
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.scheduler import AcceleratedScheduler
from accelerate.utils import find_batch_size
from torch.utils.data import DataLoader

from jtrain.checkpointing.spread import is_sharded_module
from jtrain.errors import JtrainError
from jtrain.worker.course import Course
from jtrain.worker.data import Feed, prepare_loader
from jtrain.worker.elastic import Piece, accumulating
from jtrain.worker.randomness import mix
from jtrain.worker.recorder import Recorder

_LOOP, _BESIDE = range(2)
"""Which kind of loop a seed is for."""
_EMPTY = "run.batches had no batch to give: the data set is empty, or smaller than a batch with drop_last=True"


class Loop:
    """Loops and steps of one rank."""

    def __init__(
        self,
        accelerator: Callable[[], Accelerator],
        course: Course,
        recorder: Recorder,
        *,
        seed: int,
        clip_grad: float | None,
    ) -> None:
        self._accelerator = accelerator
        self._course = course
        self._recorder = recorder
        self._row = course.row
        self._seed = seed
        self._clip_grad = clip_grad
        self._outer_count = 0
        """Iterations of the `run.epochs` loop that the cell is in; 0 outside of one."""
        self._num_beside = 0
        self._raw: dict[int, tuple[Any, Any]] = {}
        """Loaders given to `batches` unprepared, by identity, and what was made of them."""
        self._watched: Any = None
        self._has_updated = False
        """Whether the cell's first optimizer has made a step in this batch, by `step` or by the cell itself."""

    # Preparing -------------------------------------------------------------------------------------------------

    def prepare(self, *objects: Any) -> Any:
        """Make models, optimizers, schedulers and loaders ready for this rank; returns them in the same order."""
        accelerator = self._accelerator()
        ready = {
            i: self._prepare_loader(thing) if isinstance(thing, DataLoader) else _prepare_spread(thing, accelerator)
            for i, thing in enumerate(objects)
            if isinstance(thing, DataLoader) or is_sharded_module(thing)
        }
        rest = [thing for i, thing in enumerate(objects) if i not in ready]
        prepared = accelerator.prepare(*rest) if rest else ()
        others = iter(prepared if len(rest) > 1 else (prepared,) if rest else ())
        result = [ready[i] if i in ready else next(others) for i in range(len(objects))]
        for thing in result:
            # Accelerate registers a scheduler that it wraps, but not one that is wrapped already.
            if isinstance(thing, AcceleratedScheduler) and thing not in accelerator._schedulers:
                accelerator._schedulers.append(thing)
        return result[0] if len(result) == 1 else tuple(result)

    def _prepare_loader(self, loader: DataLoader[Any]) -> Any:
        if getattr(loader, "_is_accelerate_prepared", False):
            return loader
        accelerator = self._accelerator()
        prepared = prepare_loader(loader, accelerator, self._seed + self._course.next_feed)
        if prepared not in accelerator._dataloaders:
            accelerator._dataloaders.append(prepared)
        self._add_feed(prepared)
        return prepared

    def _add_feed(self, loader: Any) -> Feed:
        course = self._course
        feed = Feed(loader, course.next_feed)
        course.next_feed += 1
        course.feeds.append(feed)
        return feed

    def _feed_of(self, loader: Any) -> Feed:
        for feed in self._course.feeds:
            if feed.loader is loader:
                return feed
        if isinstance(loader, DataLoader) and not getattr(loader, "_is_accelerate_prepared", False):
            _, prepared = self._raw.setdefault(id(loader), (loader, None))
            if prepared is None:
                prepared = self._prepare_loader(loader)
                self._raw[id(loader)] = (loader, prepared)
            return self._feed_of(prepared)
        return self._add_feed(loader)

    # Looping ---------------------------------------------------------------------------------------------------

    def epochs(self, count: int) -> Iterator[int]:
        """0 to `count` - 1; a resumed run begins with the iteration it was in."""
        if self._outer_count:  # inside another one, which says where a resumed run goes on
            yield from range(count)
            return
        course = self._course
        self._outer_count = count
        try:
            for epoch in range(course.begin_outer(), count):
                course.enter_outer(epoch)
                yield epoch
        finally:
            self._outer_count = 0
            course.enter_outer(None)

    def batches(self, loader: Any, epochs: int) -> Iterator[Any]:
        """Batches of `loader`, `epochs` times; see `WorkerRun.batches`."""
        feed, course = self._feed_of(loader), self._course
        if course.is_inside:
            yield from self._batches_beside(feed, epochs)
            return
        first = course.begin_loop(feed)
        if first is None:
            return
        first_epoch, first_batch = first
        seed = mix(_LOOP, self._seed, course.position.loop)
        self._begin(feed, epochs, first_epoch, first_batch)
        course.is_inside = True
        try:
            for epoch in range(first_epoch, epochs):
                course.position.epoch = epoch
                self._row.epoch = (course.position.outer or 0) * epochs + epoch
                spread = course.spread if first_batch or self._is_training() else None
                may_stop = course.spread is spread or not feed.deals_out
                yield from self._epoch(feed.iterate(seed, epoch, first_batch, spread), first_batch, may_stop)
                first_batch = 0
            course.end_loop()
            if epochs > 0 and not course.position.batch and feed.num_batches(course.layout.ranks) == 0:
                course.notify("warning", _EMPTY)
        finally:
            course.is_inside = False

    def _batches_beside(self, feed: Feed, epochs: int) -> Iterator[Any]:
        """A loop inside the body of another, say validation: no place to stop at."""
        course = self._course
        at = course.position
        seed = mix(_BESIDE, self._seed, at.loop, at.epoch, at.batch, self._num_beside)
        self._num_beside += 1
        place = course.begin_beside(feed, seed)
        try:
            for epoch in range(place.epoch, epochs):
                place.epoch, start = epoch, place.batch
                for batch, _ in feed.iterate(place.seed, epoch, start):
                    place.batch += 1
                    yield batch
                place.batch = 0
        finally:
            course.end_beside(place)

    def _epoch(self, batches: Iterator[tuple[Any, Piece | None]], first_batch: int, may_stop: bool) -> Iterator[Any]:
        """`may_stop`: whether the batches are counted as the run's layout has them, so that one can go on there."""
        course, row, accelerator = self._course, self._row, self._accelerator()
        accumulation = course.layout.accumulation
        position = course.position
        position.batch = row.batch = first_batch
        rows_before = position.micro_step - first_batch
        for batch, piece in batches:
            self._watch_optimizer()
            self._num_beside = 0
            with accumulating(accelerator, piece, accumulation):
                course.piece = piece
                yield batch
            self._count_update()
            position.batch = row.batch = position.batch + 1 if piece is None else piece.rows
            position.micro_step = row.micro_step = rows_before + position.batch
            row.step = position.step
            row.samples += _size(batch)
            row.heartbeat = time.time()
            if may_stop and (piece is None or piece.is_last):
                course.boundary()

    def _is_training(self) -> bool:
        """Whether a loop that begins may train; one that evaluates may need Accelerate's own dealing out."""
        models = self._accelerator()._models
        return not models or any(model.training for model in models)

    def _begin(self, feed: Feed, epochs: int, first_epoch: int, first_batch: int) -> None:
        """Say how long it will take: all iterations of `run.epochs` count as epochs of one loop."""
        layout = self._course.layout
        row, num_batches = self._row, feed.num_batches(layout.ranks)
        accumulate = layout.accumulation
        iterations = max(self._outer_count, 1)
        row.epochs, row.num_batches = iterations * epochs, num_batches
        # An accumulation ends with its epoch.
        steps_per_epoch = -(-num_batches // accumulate)
        epochs_left = row.epochs - (self._course.position.outer or 0) * epochs - first_epoch
        steps_left = epochs_left * steps_per_epoch - first_batch // accumulate
        row.total_steps = self._course.position.step + steps_left if num_batches else 0
        row.loop_micro_step, row.loop_samples = row.micro_step, row.samples
        row.loop_started = row.heartbeat = time.time()

    # Stepping --------------------------------------------------------------------------------------------------

    def step(self, loss: torch.Tensor) -> None:
        """Backward; on the last batch of an accumulation also clip, update, schedule and log."""
        self._course.refuse_if_paused()
        accelerator = self._accelerator()
        _check_step(loss, accelerator)
        accelerator.backward(loss)
        self._course.window.append(loss.detach())
        is_update = accelerator.sync_gradients
        if is_update and self._clip_grad is not None:
            for model in accelerator._models:
                accelerator.clip_grad_norm_(model.parameters(), self._clip_grad)
        for optimizer in accelerator._optimizers:
            optimizer.step()
        for scheduler in accelerator._schedulers:
            scheduler.step()
        for optimizer in accelerator._optimizers:
            optimizer.zero_grad()
        if is_update:
            self._updated(accelerator)

    def _updated(self, accelerator: Accelerator) -> None:
        course = self._course
        self._count_step()
        window, course.window = course.window, []
        loss = window[0] if len(window) == 1 else torch.stack(window).mean()
        if loss.device.type == "cpu":
            self._row.loss = loss.item()
        if course.is_silent:
            return
        step = course.position.step
        self._recorder.log("loss", loss, step)
        if accelerator._schedulers:
            self._recorder.log("learning_rate", float(accelerator._schedulers[0].get_last_lr()[0]), step)

    def _count_step(self) -> None:
        self._has_updated = False
        self._course.has_stepped = True
        self._course.position.step += 1
        self._row.step = self._course.position.step

    def _count_update(self) -> None:
        """Count a step that the cell made itself, with `optimizer.step()`."""
        if self._has_updated:
            self._count_step()

    def _watch_optimizer(self) -> None:
        """Be told when the cell's first optimizer makes a step."""
        optimizers = self._accelerator()._optimizers
        if not optimizers or optimizers[0] is self._watched:
            return
        self._watched = optimizers[0]
        optimizer = getattr(self._watched, "optimizer", None)
        if isinstance(optimizer, torch.optim.Optimizer):
            optimizer.register_step_post_hook(self._note_update)

    def _note_update(self, *_: Any) -> None:
        self._has_updated = True

    def should_stop(self) -> bool:
        """See `Course.should_stop`; the loop's steps are counted as those of `batches` are."""
        self._watch_optimizer()
        self._count_update()
        return self._course.should_stop()


def _prepare_spread(model: Any, accelerator: Accelerator) -> Any:
    """A model that `fully_shard` has spread over the ranks: DistributedDataParallel isn't to be put around it."""
    return accelerator.prepare_model(model, evaluation_mode=True)


def _check_step(loss: Any, accelerator: Accelerator) -> None:
    """Raises TypeError, ValueError or JtrainError for what `backward` would only fail on somewhere in torch."""
    if not isinstance(loss, torch.Tensor):
        raise TypeError(
            f"run.step takes the loss as a tensor, not a {type(loss).__name__}: leave .item() or float() out"
        )
    if not accelerator._optimizers:
        raise JtrainError(
            "run.step has no optimizer to step: none has been prepared. "
            "Write: model, optimizer, loader = run.prepare(model, optimizer, loader)"
        )
    if loss.numel() != 1:
        shape = tuple(loss.shape)
        raise ValueError(f"run.step takes one number as the loss, not a tensor of shape {shape}: take its .mean()")
    if not loss.requires_grad:
        raise ValueError(
            "the loss given to run.step leads back to no parameter: it was detached, or computed under torch.no_grad()"
        )


def _size(batch: Any) -> int:
    with contextlib.suppress(TypeError, IndexError, StopIteration):
        return int(find_batch_size(batch) or 0)
    return 0
