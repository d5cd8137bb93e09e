"""One attempt: starts the ranks through torch elastic, watches them, and ends them all when one fails.

Order matters. The listening socket of the rendezvous store is bound first (port 0: the system chooses, so
there is no clash), the ranks are forked while this process still has a single thread, and only then is the
store's thread started on that socket. Every attempt has a store of its own: a rank never meets an address
that a dead attempt left behind.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from torch.distributed import TCPStore
from torch.distributed.elastic.multiprocessing import LogsDest, LogsSpecs, PContext, start_processes

from jtrain.devices.host import cpu_count
from jtrain.domain.devices import Device
from jtrain.domain.spec import RunSpec
from jtrain.domain.worker import WorkerContext
from jtrain.engine.environment import rank_environments, threads_per_rank
from jtrain.store.paths import AttemptPaths, RunPaths
from jtrain.store.ranks import RankTable
from jtrain.worker.main import run_rank

START_METHOD = "fork" if sys.platform == "linux" else "spawn"
"""Forking a process that uses Apple's frameworks is not safe, so macOS starts ranks afresh."""

FAILURE_GRACE_S = 2.0
"""How long the other ranks may go on after one failed: time to write their own error down."""

_STOP_GRACE_S = 3.0


class _NoElasticLogs(LogsSpecs):
    """Ranks write their own logs; elastic only needs a place for its error files."""

    def __init__(self, attempt: AttemptPaths) -> None:
        super().__init__()
        self._attempt = attempt

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        folder = self._attempt.root / "errors"
        files = {rank: str(folder / f"elastic-{rank}.json") for rank in envs}
        for rank, env in envs.items():
            env["TORCHELASTIC_ERROR_FILE"] = files[rank]
        console = dict.fromkeys(envs, "")
        return LogsDest(stdouts=console, stderrs=dict(console), error_files=files)

    @property
    def root_log_dir(self) -> str:
        return str(self._attempt.root)


@dataclass(frozen=True)
class RankExit:
    """How a rank's process ended: exit code, negative for a signal (as subprocess has it); seconds since the epoch.

    `is_early`: it ended with 0, but not at the end of its program.
    """

    rank: int
    code: int
    time: float
    was_ended_by_us: bool
    is_early: bool = False


class Attempt:
    """The ranks of one attempt."""

    def __init__(
        self, paths: RunPaths, number: int, spec: RunSpec, devices: Sequence[Device], resume_from: str | None
    ) -> None:
        self.paths = paths.attempt(number)
        self.spec = spec
        self.devices = list(devices)
        self._run_root = str(paths.root)
        self._resume_from = resume_from
        self._exits: dict[int, RankExit] = {}
        self._failed_at: float | None = None
        self._ended_by_us: set[int] = set()
        self._context: PContext | None = None
        self._store: TCPStore | None = None
        self.last_step: int | None = None
        """Rank 0's optimizer step when the attempt ended; None when it had not begun to train."""
        self.table: RankTable | None = None

    def start(self) -> None:
        """Start one rank per device. Must be called while this process has a single thread (Linux)."""
        _check_single_thread()
        self.paths.create()
        world_size = len(self.devices)
        self.table = RankTable.create(self.paths.ranks, world_size)
        listener = socket.create_server(("127.0.0.1", 0), backlog=max(16, 4 * world_size))
        port = listener.getsockname()[1]
        threads = threads_per_rank(os.environ, cpu_count(), world_size)
        envs = rank_environments(self.spec, self.devices, attempt=self.paths.number, port=port, threads=threads)
        contexts = {
            rank: (WorkerContext(self._run_root, self.paths.number, rank, rank, world_size, self._resume_from),)
            for rank in range(world_size)
        }
        self._context = start_processes(
            name="jtrain",
            entrypoint=run_rank,
            args=contexts,
            envs=envs,
            logs_specs=_NoElasticLogs(self.paths),
            start_method=START_METHOD,
        )
        # Elastic's handlers turn signals into exceptions of its own; the supervisor sets its handlers anew.
        self._store = TCPStore(
            "127.0.0.1", port, world_size, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
        )

    @property
    def has_begun(self) -> bool:
        """Whether every rank has reached its program."""
        table = self.table
        return table is not None and all(table.row(rank).heartbeat > 0 for rank in range(table.world_size))

    @property
    def pids(self) -> dict[int, int]:
        """Process ids by rank."""
        return self._context.pids() if self._context else {}

    def poll(self) -> list[RankExit] | None:
        """How all ranks ended, in order of time, or None while the attempt lives.

        When one rank has failed, the others get `FAILURE_GRACE_S` and are then killed: they may wait for
        the dead one in a collective operation, where no signal handler of theirs would run.
        """
        for rank, pid in self.pids.items():
            if rank not in self._exits and (code := _peek_exit(pid)) is not None:
                is_early = code == 0 and self.table is not None and not self.table.row(rank).done
                self._exits[rank] = RankExit(rank, code, time.time(), rank in self._ended_by_us, is_early)
        if self._failed_at is None and any(exit_.code != 0 or exit_.is_early for exit_ in self._exits.values()):
            self._failed_at = time.monotonic()
        if len(self._exits) == len(self.pids):
            self._close()
            return sorted(self._exits.values(), key=lambda exit_: (exit_.time, exit_.rank))
        if self._failed_at is not None and time.monotonic() - self._failed_at > FAILURE_GRACE_S:
            self._signal(signal.SIGKILL)
        return None

    def stop(self) -> None:
        """End all ranks: SIGHUP (for a rank SIGTERM is a wish to pause), and SIGKILL after a short grace. `poll` then
        tells how they ended."""
        self._signal(signal.SIGHUP)
        deadline = time.monotonic() + _STOP_GRACE_S
        while time.monotonic() < deadline and any(_peek_exit(pid) is None for pid in self.pids.values()):
            time.sleep(0.02)
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for rank, pid in self.pids.items():
            if rank not in self._exits and _peek_exit(pid) is None:
                self._ended_by_us.add(rank)
                os.kill(pid, number)

    def _close(self) -> None:
        """Reap the ranks and end the store's thread, so that the process can fork again."""
        if self._context is not None:
            self._context.close(signal.SIGKILL, timeout=5)
        self._store = None
        if self.table is not None:
            self.last_step = self.table.row(0).step or None
            self.table.close()
            self.table = None


def _peek_exit(pid: int) -> int | None:
    """A child's exit code without reaping it (elastic does that), or None while it runs."""
    try:
        status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    if status is None:
        return None
    return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status


def _check_single_thread() -> None:
    if sys.platform == "linux" and (count := len(os.listdir("/proc/self/task"))) != 1:
        raise RuntimeError(f"the supervisor has {count} threads and must not fork ranks now; please report this")
