"""Waiting for a run: show it, hear the user's interrupts, end when it rests.

The first interrupt asks for a pause, the second stops the run, the third only ends the wait.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from pathlib import Path
from typing import Protocol

from jtrain.errors import JtrainError, RunInterrupted, RunNotFoundError
from jtrain.interrupts import Interrupts
from jtrain.run import Run
from jtrain.view.snapshot import Snapshot, SnapshotReader

UPDATE_S = 0.2
"""At most five updates a second, however fast the loop is."""
FIRST_UPDATE_S = 0.25
"""Until then there is little to show, and the processor is needed for starting the ranks."""
_FULL_BELOW_BYTES = 32 * 1024
"""Some file systems keep a few blocks back."""
_POLL_S = 0.03
_LATEST_POLL_S = 0.1


class View(Protocol):
    """Where a run is shown."""

    def update(self, snapshot: Snapshot) -> None:
        """Show the run as it is now."""

    def tell(self, sentence: str) -> None:
        """Tell the user something, once."""

    def finish(self, snapshot: Snapshot) -> None:
        """Leave what shall stay."""


class Watch:
    """One wait for one run. `interrupts`: those that came while it was started, if any."""

    def __init__(self, run: Run, view: View, interrupts: Interrupts | None = None) -> None:
        self.run = run
        self.interrupts = interrupts or Interrupts()
        self.interrupts.is_raising = False
        self._view = view
        self._reader = SnapshotReader(run)
        self._heard = 0
        self._has_told_of_disk = False
        self._update_due = time.monotonic() + FIRST_UPDATE_S
        self._began = time.monotonic()

    def wait(self) -> None:
        """Wait here, blocking. Raises what `conclude` raises."""
        with self.interrupts.installed():
            while not self._is_over():
                time.sleep(self._pause_s())
            self._finish()
        self.conclude()

    async def wait_async(self) -> None:
        """Wait in an event loop, which goes on serving others. Raises what `conclude` raises."""
        with self.interrupts.installed():
            while not self._is_over():
                try:
                    await asyncio.sleep(self._pause_s())
                except asyncio.CancelledError:
                    self._hear_cancellation()
            self._finish()
        self.conclude()

    def _hear_cancellation(self) -> None:
        """A front end without signals interrupts by cancelling; the wait goes on, so the cancellation is taken back."""
        task = asyncio.current_task()
        times = task.cancelling() if task is not None else 1
        for _ in range(times):
            if task is not None:
                task.uncancel()
        self.interrupts.count += max(1, times)

    def _pause_s(self) -> float:
        """Look often in a run's first second, which may be all it needs."""
        return _POLL_S if time.monotonic() - self._began < 1.0 else _LATEST_POLL_S

    def _is_over(self) -> bool:
        while self._heard < self.interrupts.count:
            self._heard += 1
            self._obey()
        if self._heard >= 3 or self.run.is_at_rest:
            return True
        now = time.monotonic()
        if now >= self._update_due:
            self._view.update(self._reader.read())
            self._tell_of_a_full_disk()
            self._update_due = time.monotonic() + UPDATE_S
        return False

    def _tell_of_a_full_disk(self) -> None:
        """The run itself can't: what it says goes to that disk."""
        root = self.run.store.paths.root
        if self._has_told_of_disk or _free_bytes(root) >= _FULL_BELOW_BYTES:
            return
        self._has_told_of_disk = True
        self._view.tell(
            f"The disk is full: {root}. The run goes on, but what it prints and logs now is lost, and it can't write a "
            "checkpoint. Make room there: `%jtrain clean` removes old runs."
        )

    def _obey(self) -> None:
        run_id = self.run.id
        if self._heard == 1:
            self._view.tell(
                f"Pausing {run_id} with a checkpoint at its next batch. Interrupt again to stop it at once."
            )
            self.run.pause()
        elif self._heard == 2:
            self._view.tell(f"Stopping {run_id}.")
            self.run.stop()

    def _finish(self) -> None:
        self._tell_of_a_full_disk()
        if self.run.is_at_rest:
            self.run.store.note(self.run.id)
        self._view.finish(self._reader.read(is_last=True))

    def conclude(self) -> None:
        """Raise what a run that hasn't finished means for whoever waits.

        Raises WorkerError for one that failed, RunInterrupted (a KeyboardInterrupt) for one that was paused, stopped or
        left, JtrainError for one whose supervisor died.
        """
        run, state = self.run, self.run.shown_state
        if (error := run.error) is not None:
            raise error
        if state == "deleted":
            raise RunNotFoundError(f"the folder of run {run.id} is gone: {run.paths.root}")
        if state == "interrupted":
            raise JtrainError(
                f"the supervisor of run {run.id} has died (or the machine had); what it said last is in "
                f"{run.paths.supervisor_log}. `%jtrain resume {run.id}` goes on {_from_where(run)}"
            )
        if state != "finished":
            raise RunInterrupted(how_to_go_on(run), run_id=run.id, state=state)


def _free_bytes(folder: Path) -> float:
    """Room on a folder's disk; plenty where that can't be found out."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return math.inf
    return found.f_bavail * found.f_frsize


def _from_where(run: Run) -> str:
    """Where a resume of the run begins."""
    checkpoints = run.checkpoints()
    return f"from its last checkpoint, at step {checkpoints[-1].step}" if checkpoints else "from the start"


def how_to_go_on(run: Run) -> str:
    """Where a run that hasn't finished stands, and how to go on."""
    state, step = run.shown_state, run.progress.step
    at = f" at step {step}" if step else ""
    if state == "paused":
        return f"run {run.id} is paused{at}. `%jtrain resume {run.id}` goes on."
    if state == "stopped":
        return f"run {run.id} was stopped{at}; `%jtrain resume {run.id}` goes on {_from_where(run)}."
    return f"run {run.id} is still {state}{at}. `%jtrain attach {run.id}` shows it again."
