"""The supervisor: the detached process that owns one run, from its queueing to its end.

It holds `owner.lock`, is the only writer of the journal, and forks the ranks. It has a single thread whenever it
forks: the sampler's and the rendezvous store's threads live only while an attempt does.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from jtrain.devices.host import oom_kills
from jtrain.devices.sampler import SampleThread, visible_devices
from jtrain.domain.spec import RunSpec
from jtrain.domain.states import ALIVE, RESUME_TOKEN, State
from jtrain.engine.attempt import Attempt
from jtrain.engine.exits import Exit, explain
from jtrain.engine.leases import Lease
from jtrain.engine.orphans import adopt_orphans, end_orphans
from jtrain.engine.policies import after_attempt
from jtrain.engine.waiting import DeviceWait
from jtrain.errors import JtrainError
from jtrain.store.checkpoints import damaged_checkpoints, newest_checkpoint
from jtrain.store.files import FileLock, read_json, write_atomic
from jtrain.store.inbox import Command, take
from jtrain.store.journal import Journal
from jtrain.store.paths import RunPaths
from jtrain.store.ranks import RankTable, Request
from jtrain.store.runs import RunStore

_TICK_S = 0.02
_WAIT_TICK_S = 0.1
_RENEW_S = 3600.0
_LOOK_AT_DISK_S = 1.0
_LONGEST_WAIT_FOR_DISK_S = 60.0
"""How long the end of a run waits for a full disk, and ranks go on in a folder that is gone."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_DURABLE_AFTER_S = 1.0
_SAMPLE_AFTER_S = 0.3
"""What doesn't hurry waits until the ranks, whose start needs the processor, are up."""

_THE_END = "the machine or its scheduler wants the run to end"

logger = logging.getLogger("jtrain.supervisor")


class Supervisor:
    """Owner of the run at `root`."""

    def __init__(self, root: Path) -> None:
        self.paths = RunPaths(root)
        self.store = RunStore(root.parent.parent)
        self.spec = self.store.read_spec(self.paths.id)
        self.lock = FileLock(self.paths.owner_lock)
        self.history: list[Exit] = []
        self._wants_pause = ""
        self._wants_stop = ""
        self._was_told_to_pause = False
        self._wants_checkpoint = False
        self._caught_up = 0
        """The last checkpoint during whose writing another was due that has been asked for since."""
        self._next_checkpoint = float("inf")
        self._lease: Lease | None = None
        self._renew_at = time.monotonic() + _RENEW_S
        self._disk_due = self._folder_seen = 0.0

    def run(self) -> None:
        """Own the run until it rests. Returns at once when somebody else owns it."""
        if not self._take_lock():
            logger.warning("run %s has a supervisor already", self.paths.id)
            return
        # A rank must hold the leases, never the run: its supervisor's death has to show.
        os.register_at_fork(after_in_child=self.lock.close)
        self.journal = Journal(self.paths.journal, is_patient=True)
        self._catch_signals()
        adopt_orphans()
        try:
            self._own()
        except BaseException as error:
            logger.exception("the supervisor of %s failed", self.paths.id)
            if self.journal.state in ALIVE:
                self._write("failed", reason=self._why_failed(error))
            raise
        finally:
            self._write_the_rest()
            self.lock.close()

    def _why_failed(self, error: BaseException) -> str:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            return (
                f"the run's files could not be written to {self.paths.root}: {error.strerror}. Make room there: "
                "`%jtrain clean` removes old runs"
            )
        return f"jtrain's supervisor failed: {type(error).__name__}: {error}"

    def _write_the_rest(self) -> None:
        """Wait for room on the disk rather than leave a run that nobody knows the end of."""
        deadline = time.monotonic() + _LONGEST_WAIT_FOR_DISK_S
        while (problem := self.journal.catch_up()) is not None:
            if time.monotonic() > deadline:
                logger.error("the end of run %s could not be written: %s", self.paths.id, problem)
                return
            time.sleep(1.0)

    def _take_lock(self) -> bool:
        # A viewer that looks whether the lock is free holds it for an instant.
        for _ in range(50):
            if self.lock.acquire():
                return True
            time.sleep(0.01)
        return False

    def _own(self) -> None:
        if self.journal.standing.attempt or self.journal.state is not State.QUEUED:
            token = os.environ.pop(RESUME_TOKEN, "")
            self._write("queued", reason="resumed", token=token, owner_lost=self.journal.state in ALIVE)
            self.store.note(self.paths.id)  # the index has it as a run at rest, and looks no more at those
        self._read_inbox()  # which devices it was resumed with
        while True:
            lease = self._wait_for_devices()
            if lease is None:
                return
            try:
                self._lease = lease
                exit_ = self._run_attempt(lease)
            finally:
                lease.release()
            self.history.append(exit_)
            following = after_attempt(self.history, self.spec.options.max_restarts)
            if following.action == "end":
                self._write(_final_state(exit_), **_exit_facts(exit_, following.reason))
                return
            self._write("restarting", reason=following.reason)
            if not self._idle(following.delay_s):
                return

    def _write(self, kind: str, **data: Any) -> None:
        self.journal.write(kind, **data)
        if self.journal.state not in ALIVE:  # a living run is never believed to be as the index has it
            self.store.note(self.paths.id)

    # Waiting ---------------------------------------------------------------------------------------------------

    def _wait_for_devices(self) -> Lease | None:
        """Devices for the run, or None when it was paused or stopped while it waited (and its state says so)."""
        try:
            # In line since it was launched or resumed, however long its supervisor took to start.
            standing = self.journal.standing
            wait = DeviceWait(self._spec_now(), visible_devices(), standing.since, standing.priority)
        except JtrainError as error:
            self._write("failed", reason=str(error))
            return None
        with wait:
            said = ""
            while True:
                lease = wait.try_start()
                if lease is not None:
                    return lease
                if wait.sentence != said:
                    said = wait.sentence
                    self._write("waiting", reason=said)
                if self._ended_at_rest():
                    return None
                if self.journal.standing.priority is not None:
                    wait.set_priority(self.journal.standing.priority)
                time.sleep(_WAIT_TICK_S)

    def _spec_now(self) -> RunSpec:
        """The spec with the devices that the run was last resumed with."""
        standing = self.journal.standing
        if standing.gpus is None:
            return self.spec
        options = self.spec.options.model_copy(update={"gpus": standing.gpus, "nproc": standing.nproc})
        return self.spec.model_copy(update={"options": options})

    def _idle(self, seconds: float) -> bool:
        """Wait before a restart; False when the run was paused or stopped meanwhile."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._ended_at_rest():
                return False
            time.sleep(_WAIT_TICK_S)
        return True

    def _ended_at_rest(self) -> bool:
        """Obey a pause or stop while no rank runs."""
        self._read_inbox()
        if self._wants_stop:
            self._write("stopped", reason=self._wants_stop)
        elif self._wants_pause:
            self._write("paused", reason=f"{self._wants_pause}, before it had started")
        else:
            return False
        return True

    # Running ---------------------------------------------------------------------------------------------------

    def _run_attempt(self, lease: Lease) -> Exit:
        number = self.journal.standing.attempt + 1
        checkpoint = newest_checkpoint(self.paths)
        resume_from = checkpoint.name if checkpoint else next(iter(damaged_checkpoints(self.paths)), None)
        devices = lease.devices
        self._write(
            "starting",
            attempt=number,
            devices=[device.uuid for device in devices],
            resume_from=resume_from,
            resume_step=checkpoint.step if checkpoint else None,
            resume_time=checkpoint.time if checkpoint else None,
            reason=f"attempt {number} on {len(devices)} {'GPU' if devices[0].kind != 'cpu' else 'CPU'} rank(s)",
        )
        kills = oom_kills()
        attempt = Attempt(self.paths, number, self.spec, devices, resume_from)
        attempt.start()
        self._catch_signals()
        sampler = SampleThread(
            attempt.paths.samples, pids=attempt.pids, store_dir=self.store.paths.root, first_after_s=_SAMPLE_AFTER_S
        )
        sampler.start()
        try:
            exits = self._watch(attempt)
        finally:
            sampler.stop()
            end_orphans()
        exit_ = explain(
            exits,
            _errors(attempt),
            was_stopped=bool(self._wants_stop),
            was_told_to_pause=self._was_told_to_pause,
            oom_kills=oom_kills() - kills,
        )
        if exit_.step is None:
            exit_ = replace(exit_, step=attempt.last_step)
        try:
            write_atomic(attempt.paths.exit, _to_json(exit_))
        except OSError as error:  # the journal has the sentence; only details are lost
            logger.error("%s could not be written: %s", attempt.paths.exit, error)
        return exit_

    def _watch(self, attempt: Attempt) -> list[Any]:
        self._was_told_to_pause = False
        self._caught_up = 0
        self._schedule_checkpoint()
        durable_at = time.monotonic() + _DURABLE_AFTER_S
        self._folder_seen = time.monotonic()
        while True:
            exits = attempt.poll()
            if exits is not None:
                return exits
            self._read_inbox()
            self._renew_lease()
            self._look_at_disk()
            if time.monotonic() >= durable_at:
                durable_at = float("inf")
                self.store.make_durable(self.paths.id)
            if self.journal.state is State.STARTING and attempt.has_begun:
                self._write("running", reason="")
            if self._wants_stop:
                attempt.stop()
            else:
                self._ask_ranks(attempt)
            time.sleep(_TICK_S)

    def _look_at_disk(self) -> None:
        """A full disk is waited for; a run whose folder was deleted ends, since nobody could stop it any more."""
        now = time.monotonic()
        if now < self._disk_due:
            return
        self._disk_due = now + _LOOK_AT_DISK_S
        self.journal.catch_up()
        if self.paths.root.exists():
            self._folder_seen = now
        elif now - self._folder_seen > _LONGEST_WAIT_FOR_DISK_S:
            self._wants_stop = self._wants_stop or f"the run's folder {self.paths.root} is gone"

    def _renew_lease(self) -> None:
        """Keep services that clear old files away from the lock files of a long run."""
        if self._lease is not None and time.monotonic() >= self._renew_at:
            self._renew_at = time.monotonic() + _RENEW_S
            self._lease.renew()

    def _ask_ranks(self, attempt: Attempt) -> None:
        """Pass a pause or a due checkpoint on to the ranks, one wish at a time."""
        table = attempt.table
        if table is not None:
            self._look_at_ranks(table)
        if self._wants_pause and self.journal.state in (State.RUNNING, State.STARTING):
            self._write("pausing", reason=self._wants_pause)
        if time.monotonic() >= self._next_checkpoint:
            self._wants_checkpoint = True
            self._schedule_checkpoint()
        if table is None or not table.is_served():
            return
        if self._was_told_to_pause:
            if table.is_refused:
                self._go_on_unpaused()
            return
        if self._wants_pause:
            self._was_told_to_pause = True
            table.set_request(Request.PAUSE)
        elif self._wants_checkpoint:
            self._wants_checkpoint = False
            table.set_request(Request.CHECKPOINT)

    def _look_at_ranks(self, table: RankTable) -> None:
        """What the ranks wish: to be paused, since they were told to end; a checkpoint that they had no time for."""
        for rank in range(table.world_size):
            if (number := table.row(rank).told_to_end) and not self._wants_pause:
                self._wants_pause = f"rank {rank} got {signal.Signals(number).name} ({_THE_END})"
        first = table.row(0)
        if first.wants_save > self._caught_up and abs(first.published) >= first.wants_save:
            self._caught_up = first.wants_save
            self._wants_checkpoint = True

    def _go_on_unpaused(self) -> None:
        """The ranks stood still but could not write their checkpoint: they train on rather than lose what they have."""
        self._wants_pause, self._was_told_to_pause = "", False
        self._write("running", reason="not paused: the checkpoint could not be written (see the log)")

    def _schedule_checkpoint(self) -> None:
        every_s = self.spec.options.checkpoint_every_s
        self._next_checkpoint = time.monotonic() + every_s if every_s else float("inf")

    # Wishes ----------------------------------------------------------------------------------------------------

    def _read_inbox(self) -> None:
        for command in take(self.paths.inbox):
            self._obey(command)

    def _obey(self, command: Command) -> None:
        reason = f"asked by {command.by}" if command.by else "asked"
        if command.name == "pause":
            self._wants_pause = self._wants_pause or reason
        elif command.name == "stop":
            self._wants_stop = self._wants_stop or reason
        elif command.name == "checkpoint":
            self._wants_checkpoint = True
        self._write("asked", command=command.name, by=command.by)
        if command.name == "priority":
            self._change_priority(command)
        elif command.name == "devices":
            self._change_devices(command)

    def _change_devices(self, command: Command) -> None:
        """Devices can only be chosen while the run has none."""
        gpus, nproc = command.data.get("gpus"), command.data.get("nproc")
        if isinstance(gpus, str) and (nproc is None or type(nproc) is int) and self.journal.state is State.QUEUED:
            self._write("devices", gpus=gpus, nproc=nproc)

    def _change_priority(self, command: Command) -> None:
        """A place in the line is only of use while the run waits; a wish that makes no sense is only recorded."""
        priority = command.data.get("priority")
        if isinstance(priority, int) and not isinstance(priority, bool) and self.journal.state is State.QUEUED:
            self._write("priority", priority=priority, reason=f"priority {priority}")

    def _catch_signals(self) -> None:
        """SIGTERM and SIGUSR2 (a spot notice, a shutdown) pause the run; a terminal's signals are not for this
        process."""
        for number in (signal.SIGTERM, signal.SIGUSR2):
            signal.signal(number, self._on_notice)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
            signal.signal(number, signal.SIG_IGN)

    def _on_notice(self, number: int, _: object) -> None:
        self._wants_pause = self._wants_pause or f"{signal.Signals(number).name} ({_THE_END})"


def _final_state(exit_: Exit) -> str:
    return exit_.cause if exit_.cause in ("finished", "paused", "stopped") else "failed"


def _exit_facts(exit_: Exit, reason: str) -> dict[str, Any]:
    return {"reason": reason, "cause": exit_.cause, "next_step": exit_.next_step, "rank": exit_.rank}


def _to_json(exit_: Exit) -> str:
    return json.dumps(exit_.to_json(), default=str, ensure_ascii=False)


def _errors(attempt: Attempt) -> dict[int, dict[str, Any]]:
    found = {}
    for rank in range(len(attempt.devices)):
        try:
            record = read_json(attempt.paths.error(rank))
        except ValueError:
            logger.warning("the error file of rank %d is damaged", rank)
            continue
        if isinstance(record, dict):
            found[rank] = record
    return found


def main(root: str) -> None:
    """Own the run at `root` in this process, which must be detached already; logs to the run's supervisor.log."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s", force=True)
    logging.getLogger("jtrain").setLevel(logging.INFO)
    Supervisor(Path(root)).run()


def become_detached(root: Path, leave: Callable[[], None] = lambda: None) -> None:
    """Turn a freshly forked process into a supervisor's: own session, no terminal, output to supervisor.log."""
    leave()
    os.setsid()
    os.umask(0o077)
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(RunPaths(root).supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)
