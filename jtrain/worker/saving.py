"""How one rank takes checkpoints: which state goes into them, what happens when the disk is slow or full.

Where and when they are taken is the business of course.py, how they are written that of jtrain/checkpointing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from accelerate import Accelerator

from jtrain.checkpointing.checkpointer import Checkpointer, Saved
from jtrain.domain.checkpoints import Position
from jtrain.errors import CheckpointError
from jtrain.store.ranks import RankTable
from jtrain.worker.recorder import Recorder
from jtrain.worker.state import TrainingState

Notify = Callable[[str, str], None]
"""Called with a level ("info", "warning") and a sentence."""

_TELL_AGAIN_S = 600.0

_WAIT_FOR_OTHERS_S = 2.0
"""How long a rank whose cell raised an error waits for the others to raise it too."""

_TOO_SLOW = (
    "the disk takes longer to write a checkpoint than the time between two: they come as fast as it can, "
    "the training doesn't wait. --checkpoint-every says how often they are wanted"
)


class Saver:
    """Takes the checkpoints of one rank. All ranks call each method together, but for the `tell` and `drain`.

    `is_regular`: checkpoints come every so often, so memory for them is got early and kept.
    """

    def __init__(
        self,
        accelerator: Callable[[], Accelerator],
        table: RankTable,
        rank: int,
        state: TrainingState,
        checkpointer: Callable[[], Checkpointer],
        recorder: Recorder,
        notify: Notify,
        *,
        is_regular: bool,
    ) -> None:
        self._accelerator = accelerator
        self._table = table
        self._rank = rank
        self._row = table.row(rank)
        self._state = state
        self._checkpointer = checkpointer
        self._recorder = recorder
        self._notify = notify
        self.is_cold = is_regular
        """Whether memory for checkpoints is still to be got."""
        self._meetings = 0
        self._has_postponed = False
        self._told = "", 0.0
        """Why a checkpoint could not be written, and when that was said."""
        self.micro_step = -1
        """Of the last checkpoint."""

    def load(self, name: str) -> tuple[Saved, str, list[str]]:
        """See `Checkpointer.load`."""
        return self._checkpointer().load(name)

    def warm(self, window: Sequence[torch.Tensor]) -> None:
        """Get the memory for the first checkpoint, in the background."""
        self.is_cold = False
        accelerator = self._accelerator()
        self._checkpointer().warm(self._shared(accelerator), self._state.own(accelerator, window))

    def save(
        self,
        position: Position,
        window: Sequence[torch.Tensor],
        *,
        wait: bool,
        generators: dict[str, Any] | None = None,
    ) -> str:
        """Take a checkpoint, which is then written in the background; its name. `window`: losses of the accumulation
        that is under way; `generators`: their states at `position`, when they have moved on since.

        Raises CheckpointError when it is waited for and fails.
        """
        self.is_cold = False
        accelerator, checkpointer = self._accelerator(), self._checkpointer()
        checkpointer.drain()
        self._recorder.flush()
        own = self._state.own(accelerator, window)
        if generators is not None:
            own["generators"] = generators
        self.micro_step = position.micro_step
        shared, metrics = self._shared(accelerator), self._recorder.latest
        name = checkpointer.begin(position, shared, own, metrics, is_waited_for=wait)
        if wait:
            checkpointer.wait()
        return name

    def _shared(self, accelerator: Accelerator) -> dict[str, Any]:
        is_mine = self._rank == 0 or self._state.is_spread(accelerator)
        return self._state.shared(accelerator) if is_mine else {}

    def save_if_possible(
        self,
        position: Position,
        window: Sequence[torch.Tensor],
        *,
        wait: bool,
        generators: dict[str, Any] | None = None,
    ) -> str | None:
        """A disk that takes no checkpoint doesn't end the training: a notice, and None if that was waited for."""
        try:
            return self.save(position, window, wait=wait, generators=generators)
        except CheckpointError as error:
            self.tell_of_failure(str(error))
            return None

    def is_free(self) -> bool:
        """Whether a checkpoint that is due can begin now; the same on all ranks. The training doesn't wait for a disk:
        while one is being written none begins, and the supervisor asks for it again when that is over."""
        checkpointer = self._checkpointer()
        self._meetings += 1
        if self._table.meet(self._rank, self._meetings, is_idle=checkpointer.is_idle):
            return True
        if self._rank == 0:
            self._row.wants_save = checkpointer.number
            if not self._has_postponed:
                self._has_postponed = True
                self._notify("warning", _TOO_SLOW)
        return False

    def tell_of_failure(self, sentence: str) -> None:
        """Say that a checkpoint could not be written; for the same reason only every ten minutes."""
        reason, now = re.sub(r"\d+", "", sentence), time.monotonic()
        if reason != self._told[0] or now - self._told[1] > _TELL_AGAIN_S:
            self._told = reason, now
            self._notify("warning", f"{sentence}; training goes on, the last good checkpoint is kept")

    def have_all_failed_after(self, micro_step: int) -> bool:
        """Whether the cell raised an error on all ranks after the loop that ended with `micro_step`."""
        self._row.failed_after = micro_step
        deadline = time.monotonic() + _WAIT_FOR_OTHERS_S
        rows = [self._table.row(rank) for rank in range(self._table.world_size)]
        while any(row.failed_after != micro_step for row in rows):
            if time.monotonic() > deadline or any(row.done for row in rows):
                return False
            time.sleep(0.01)
        return True

    def drain(self) -> None:
        """Wait until the last checkpoint is written, before this process ends."""
        self._checkpointer().drain()
