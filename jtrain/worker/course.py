"""Where a rank's training stands, when its checkpoints are taken, and how a resumed cell gets back to one.

A resumed cell runs again from its top. Loops that were over yield nothing, nothing is recorded, and when it reaches
the place where the checkpoint was taken everything is put back. A place is one that the program passes again in the
same way, whatever happened before: between two batches of the n-th loop, or the n-th `run.checkpoint()` after a loop.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import torch
from accelerate import Accelerator

from jtrain.checkpointing.checkpointer import Saved
from jtrain.domain.checkpoints import Beside, Position
from jtrain.domain.worker import EXIT_PAUSED
from jtrain.errors import CheckpointError
from jtrain.store.ranks import RankTable, Request
from jtrain.worker.data import Feed
from jtrain.worker.elastic import Layout, Piece, Spread, keep_pace, spread_own
from jtrain.worker.randomness import generator_state
from jtrain.worker.recorder import Recorder
from jtrain.worker.saving import Notify, Saver
from jtrain.worker.state import TrainingState

_MOST_UNWINDS = 100
"""How often a cell may catch the pause that unwinds it and try to train on, before its process is ended."""

_OWN_LOOP = (
    "this loop takes its batches without run.batches, so it has to see to it itself that the other number of ranks "
    "makes the same steps"
)


class Paused(BaseException):
    """Unwinds the cell after a pause checkpoint; `finally` and `with` blocks of the cell run."""


class Course:
    """Position, boundaries and checkpoints of one rank's training."""

    def __init__(
        self,
        accelerator: Callable[[], Accelerator],
        table: RankTable,
        rank: int,
        state: TrainingState,
        *,
        saver: Saver,
        recorder: Recorder,
        notify: Notify,
        resume_from: str | None,
        went_on: Callable[[Position], None],
        who: Mapping[str, Any],
        every_steps: int | None,
    ) -> None:
        self._accelerator = accelerator
        self._table = table
        self._rank = rank
        self.row = table.row(rank)
        self.state = state
        self.saver = saver
        self._recorder = recorder
        self.notify = notify
        self._every_steps = every_steps
        self._went_on = went_on
        self._who = who
        """Run and attempt, as a position has them."""
        self._resume_from = resume_from
        self._loaded: Saved | None = None
        self.position = Position()
        self.feeds: list[Feed] = []
        self.next_loop = self.next_feed = self._num_outer = 0
        self.is_inside = False
        """Whether the cell is in the body of an outermost `batches` loop."""
        self.beside: list[Beside] = []
        """The loops inside it that are under way, in the order in which they began."""
        self._beside_left: list[Beside] = []
        self._call = 0
        self.window: list[torch.Tensor] = []
        """Losses of the accumulation that is under way."""
        self.has_stepped = False
        """Whether there was an optimizer step since the last boundary."""
        self.has_paused = False
        """Whether a pause checkpoint was written: from then on the cell must not train."""
        self._num_unwinds = 0
        self._number = 0
        self._is_wanted = False
        """Whether the cell asked for a checkpoint, which waits for the next boundary."""
        self._waits = False
        """Whether the cell then waits until it is complete."""
        self._after_loop: tuple[Position, dict[str, Any]] | None = None
        """Where the last loop ended and the generators then, while nothing else has been trained since."""
        self.spread: Spread | None = None
        """How the steps are made on another number of ranks than the run began with; None on that number."""
        self.piece: Piece | None = None
        """What the batch is that the cell has."""

    @property
    def is_replaying(self) -> bool:
        """Whether the cell is on its way back to where the checkpoint was taken."""
        return self._resume_from is not None

    @property
    def is_silent(self) -> bool:
        """Whether what the cell logs now was logged before, or will be again."""
        return self._resume_from is not None or self.has_paused

    @property
    def layout(self) -> Layout:
        """How an optimizer step is laid out: as it was when the run began."""
        if self.spread is not None:
            return self.spread.layout
        accelerator = self._accelerator()
        return Layout(accelerator.num_processes, accelerator.gradient_accumulation_steps)

    def _pending(self) -> Position | None:
        """Where the cell has to go on, while it hasn't got there; the checkpoint is read at the first call."""
        if self._resume_from is None:
            return None
        if self._loaded is None:
            self._loaded, name, problems = self.saver.load(self._resume_from)
            for problem in problems:
                self.notify("warning", f"checkpoint skipped: {problem}")
            self._resume_from = name
            self._spread_over_ranks(self._loaded.position)
        return self._loaded.position

    def _spread_over_ranks(self, position: Position) -> None:
        """See to it that a run of another number of ranks goes on with the same steps."""
        accelerator = self._accelerator()
        size, usual = accelerator.num_processes, accelerator.gradient_accumulation_steps
        layout = Layout(position.ranks or size, position.accumulation or usual)
        if layout.ranks == size:
            return
        if position.beside:
            raise CheckpointError(
                f"the checkpoint was taken in two loops side by side: resume it on {layout.ranks} rank(s), as it was"
            )
        spread = self.spread = Spread(layout, size)
        accelerator.gradient_accumulation_steps = spread.accumulation
        self.notify("info", spread.sentence)

    # Loops -----------------------------------------------------------------------------------------------------

    def begin_outer(self) -> int:
        """A `run.epochs` loop begins: its first iteration."""
        self._num_outer += 1
        self.position.outer_call = self._num_outer
        pending = self._pending()
        if pending is None or pending.outer is None or pending.outer_call != self._num_outer:
            return 0
        self.next_loop, self.next_feed = pending.outer_loop, pending.outer_feed
        return pending.outer

    def enter_outer(self, iteration: int | None) -> None:
        """An iteration of `run.epochs` begins, or (None) the whole loop is over."""
        self._call = 0
        self.position.outer = iteration
        self.position.outer_loop, self.position.outer_feed = self.next_loop, self.next_feed

    def begin_loop(self, feed: Feed) -> tuple[int, int] | None:
        """An outermost loop over `feed` begins: the epoch and batch to begin with; None when it was over before."""
        self.refuse_if_paused()
        self._after_loop = None
        pending = self._pending()
        loop = self.next_loop
        if pending is not None and loop in pending.loop_epochs:
            feed.epoch = pending.loop_epochs[loop]
        if pending is not None and loop >= pending.loop:
            self._restore()
        elif self._is_wanted and pending is None:
            self._save_if_possible(wait=self._waits)
        self.next_loop, self._call = loop + 1, 0
        feed.last_loop = loop
        if pending is not None and loop < pending.loop:
            return None
        position = self.position
        if pending is None or pending.loop != loop:
            position.epoch = position.batch = 0
        position.loop = loop
        return position.epoch, position.batch

    def end_loop(self) -> None:
        """The outermost loop has given all of its batches."""
        if not self.is_replaying and not self.has_stepped:
            self._after_loop = self._place(), generator_state()

    def begin_beside(self, feed: Feed, seed: int) -> Beside:
        """A loop over `feed` begins inside the outermost one: where, which is where it was when that was interrupted.

        It has to be given to `end_beside`.
        """
        for place in self._beside_left:
            if place.feed == feed.index:
                self._beside_left.remove(place)
                break
        else:
            place = Beside(feed=feed.index, seed=seed)
        self.beside.append(place)
        return place

    def end_beside(self, place: Beside) -> None:
        """The loop is over, or was left."""
        self.beside[:] = [other for other in self.beside if other is not place]

    # Boundaries ------------------------------------------------------------------------------------------------

    def boundary(self) -> None:
        """Between two batches: fulfil what is asked for or due."""
        self.refuse_if_paused()
        if self._ask() is Request.PAUSE and self._save_for_pause():
            self.refuse_if_paused()

    def should_stop(self) -> bool:
        """A boundary for a loop of the cell's own: whether all ranks stop here (the checkpoint is then written)."""
        if self.is_inside or self.has_paused:
            return self.has_paused
        self._after_loop = None
        pending = self._pending()
        if pending is not None:
            if self.next_loop < pending.loop:
                return True  # this loop was over when the checkpoint was taken
            self._restore()
            if self.spread is not None:
                self.notify("warning", _OWN_LOOP)
        self.position.micro_step += 1
        self.row.micro_step, self.row.heartbeat = self.position.micro_step, time.time()
        return self._ask() is Request.PAUSE and self._save_for_pause()

    def _ask(self) -> Request:
        """Stand at the next boundary: writes a checkpoint that is asked for or due; returns what else is asked."""
        self._number += 1
        request = self._table.boundary(self._rank, self._number)
        if request is Request.PAUSE:
            pass
        elif self._is_wanted:
            self._save_if_possible(wait=self._waits)
        elif request is Request.CHECKPOINT or self._is_due():
            if self.saver.is_free():
                self._save_if_possible(wait=False)
        elif self.saver.is_cold and self.has_stepped:
            self.saver.warm(self.window)
        self.has_stepped = False
        return request

    def _is_due(self) -> bool:
        return bool(self.has_stepped and self._every_steps and self.position.step % self._every_steps == 0)

    def _save_for_pause(self) -> bool:
        try:
            self._is_wanted = self._waits = False
            self.saver.save(self._place(), self.window, wait=True)
        except CheckpointError as error:
            self.row.refused = self.row.served
            self.notify("warning", f"not paused, since nothing would be left to go on from: {error}")
            return False
        self.has_paused = True
        return True

    def refuse_if_paused(self) -> None:
        """Raises Paused once the pause checkpoint is written: a step more would be trained twice."""
        if self.has_paused:
            self._unwind()

    def _unwind(self) -> NoReturn:
        self._num_unwinds += 1
        if self._num_unwinds > _MOST_UNWINDS:
            self._recorder.close()
            os._exit(EXIT_PAUSED)
        raise Paused

    # Checkpoints -----------------------------------------------------------------------------------------------

    def checkpoint(self, *, wait: bool) -> str | None:
        """Write one, called by all ranks: now between loops, and after the batch inside of one.

        Returns its name; None when it is still to be written, or (`wait`) could not be.
        """
        if self.is_inside:
            self._is_wanted, self._waits = True, wait
            return None
        self._call += 1
        pending = self._pending()
        if pending is None:
            return None if self.has_paused else self._save_if_possible(wait=wait)
        here = (self._num_outer, self.position.outer, self.next_loop, self._call)
        there = (pending.outer_call, pending.outer, pending.loop, pending.call)
        return self._restore() if here == there else None

    def save_after_failure(self) -> None:
        """Called on the ranks whose cell raised an error. When all of them did after the same loop, its end is a place
        to go on from: neither what the loop trained nor the batches it gave depend on what came after."""
        if self._after_loop is None or self.has_stepped or self.is_inside or self.has_paused or self.is_replaying:
            return
        position, generators = self._after_loop
        if position.micro_step == self.saver.micro_step or not self.saver.have_all_failed_after(position.micro_step):
            return
        name = self.saver.save_if_possible(position, self.window, wait=True, generators=generators)
        if name is not None:
            self.notify(
                "info", f"what was trained before that error is kept as {name}: correct the cell and resume the run"
            )

    def _save_if_possible(self, *, wait: bool) -> str | None:
        self._is_wanted = self._waits = False
        return self.saver.save_if_possible(self._place(), self.window, wait=wait)

    def _place(self) -> Position:
        accelerator, layout = self._accelerator(), self.layout
        place: dict[str, Any] = {
            "phase": 0 if accelerator.sync_gradients else accelerator.step,
            "loop_epochs": {feed.last_loop: feed.epoch for feed in self.feeds if feed.last_loop is not None},
            "feed_epochs": {feed.index: feed.epoch for feed in self.feeds if feed.last_loop is None},
            "feed_lengths": {feed.index: length for feed in self.feeds if (length := feed.num_batches(layout.ranks))},
            "ranks": layout.ranks,
            "accumulation": layout.accumulation,
            "beside": list(self.beside),
            "call": 0,
            **self._who,
            "time": time.time(),
        }
        if not self.is_inside:
            place |= {"loop": self.next_loop, "epoch": 0, "batch": 0, "call": self._call}
        return self.position.model_copy(update=place, deep=True)

    # Going on --------------------------------------------------------------------------------------------------

    def _restore(self) -> str | None:
        """Put everything back, once; returns the checkpoint's name."""
        loaded, name = self._loaded, self._resume_from
        if loaded is None:
            return None
        accelerator = self._accelerator()
        self.window = self.state.restore(accelerator, loaded.shared, self._own_of(loaded), loaded.fill)
        if self.spread is not None:
            for scheduler in accelerator._schedulers:
                keep_pace(scheduler, self.spread.layout, lambda: self.piece)
        self._loaded = self._resume_from = None
        self.position = loaded.position
        for feed in self.feeds:
            if feed.last_loop is None and feed.index in loaded.position.feed_epochs:
                feed.epoch = loaded.position.feed_epochs[feed.index]
        self._went_on(loaded.position)
        self._compare_lengths(loaded.position)
        if loaded.torch_version not in ("", torch.__version__):
            self.notify(
                "warning",
                f"the checkpoint was written with torch {loaded.torch_version} and this is {torch.__version__}: "
                "the losses may differ from an uninterrupted run's in their last digits",
            )
        self._beside_left = loaded.position.beside
        self.row.step, self.row.micro_step = self.position.step, self.position.micro_step
        self.notify("info", f"went on from {name}: step {self.position.step}, epoch {self.position.epoch + 1}")
        return name

    def _own_of(self, loaded: Saved) -> dict[str, Any]:
        if loaded.writers == self._accelerator().num_processes:
            return loaded.owns[0]
        return spread_own(loaded.owns, self._rank, loaded.position)

    def _compare_lengths(self, before: Position) -> None:
        """Warn of loaders that are longer or shorter than when the checkpoint was taken."""
        for feed in self.feeds:
            length = feed.num_batches(self.layout.ranks)
            if length and length != before.feed_lengths.get(feed.index, length):
                self.notify(
                    "warning",
                    f"a loader has {length} batches in an epoch now and had {before.feed_lengths[feed.index]} when the "
                    "checkpoint was taken (another batch size or data set): training goes on at the "
                    "same number of batches, so some samples of this epoch may come twice or not at all",
                )

    def finish(self) -> None:
        """At the end of the cell: what is still to be written or put back; a checkpoint of no use is said to be so."""
        if self._is_wanted and not self.has_paused:
            self._save_if_possible(wait=True)
        if not self.is_replaying:
            return
        why = "the cell never came to the place it was taken at"
        if self._loaded is not None and self.next_loop >= self._loaded.position.loop:
            try:
                self._restore()  # so that what the cell gives back is the checkpoint's
                return
            except CheckpointError as error:
                why = str(error)
        self.notify("warning", f"the checkpoint was not used: {why}")
