"""The processes of a run and the ones that use a GPU, by process id (psutil)."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping

import psutil

from jtrain.domain.devices import ProcessSample, Reading, missing

_TOO_SOON = "CPU use needs two readings some time apart"
_CHILDREN_EVERY_S = 5.0
"""How often the machine is searched for children of the ranks: the dearest of all readings."""


class Processes:
    """Reads the ranks' processes; remembers their CPU times between two samples."""

    def __init__(self, pids: Mapping[int, int], clock: Callable[[], float] = time.monotonic) -> None:
        self._pids = pids
        self._clock = clock
        self._known: dict[int, psutil.Process] = {}
        self._times: dict[int, float] = {}
        self._children: dict[int, list[psutil.Process]] = {}
        self._children_due = 0.0
        self._last: float | None = None

    def sample(self, gpu_memory: Callable[[int], Reading]) -> tuple[ProcessSample, ...]:
        """One sample per rank, in order of ranks; `gpu_memory` tells a process's GPU memory."""
        pids = dict(self._pids)
        now = self._clock()
        elapsed, self._last = (None if self._last is None else now - self._last), now
        if now >= self._children_due and pids:
            self._children = find_descendants(set(pids.values()))
            self._children_due = now + _CHILDREN_EVERY_S
        before, self._times = self._times, {}
        return tuple(self._rank(rank, pid, elapsed, before, gpu_memory(pid)) for rank, pid in sorted(pids.items()))

    def _rank(
        self, rank: int, pid: int, elapsed: float | None, before: Mapping[int, float], gpu: Reading
    ) -> ProcessSample:
        try:
            process = self._process(pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                raise psutil.NoSuchProcess(pid)
            memory = Reading(process.memory_info().rss)
            cpu = self._cpu(process, elapsed, before)
        except psutil.NoSuchProcess:
            memory = cpu = gpu = missing("the process has ended")
        except (psutil.Error, OSError) as error:
            memory = cpu = missing(str(error) or type(error).__name__)
        return ProcessSample(rank, pid, cpu, memory, gpu)

    def _process(self, pid: int) -> psutil.Process:
        if pid not in self._known:
            self._known[pid] = psutil.Process(pid)
        return self._known[pid]

    def _cpu(self, process: psutil.Process, elapsed: float | None, before: Mapping[int, float]) -> Reading:
        used = self._used(process, before)
        for child in self._children.get(process.pid, []):
            try:
                used += self._used(child, before)
            except (psutil.Error, OSError):
                continue  # it ended since it was found
        if not elapsed:
            return missing(_TOO_SOON)
        return Reading(round(100.0 * used / elapsed, 1))

    def _used(self, process: psutil.Process, before: Mapping[int, float]) -> float:
        """CPU seconds since the last sample; 0 for a process seen for the first time."""
        times = process.cpu_times()
        self._times[process.pid] = times.user + times.system
        return max(0.0, self._times[process.pid] - before.get(process.pid, self._times[process.pid]))


def find_descendants(pids: set[int]) -> dict[int, list[psutil.Process]]:
    """Children, their children and so on, of each of `pids`; one that ends meanwhile is left out."""
    parents = _read_parents()
    found: dict[int, list[psutil.Process]] = {pid: [] for pid in pids}
    for pid in parents.keys() - pids:
        ancestor, seen = pid, {0}
        while ancestor not in seen and ancestor not in pids:
            seen.add(ancestor)
            ancestor = parents.get(ancestor, 0)
        if ancestor in pids:
            with contextlib.suppress(psutil.Error):
                found[ancestor].append(psutil.Process(pid))
    return found


def _read_parents() -> dict[int, int]:
    """The parent of every process. Read from /proc where there is one: three times as fast as through psutil."""
    if not os.path.exists("/proc/self/stat"):
        return {process.pid: process.info["ppid"] or 0 for process in psutil.process_iter(["ppid"])}
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                # The name, in brackets, may hold anything; state and parent stand after it (proc(5)).
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    return parents


class ProcessNames:
    """Names and users of processes, remembered while they are asked for."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str | None, str | None]] = {}
        self._asked: set[int] = set()

    def find(self, pid: int) -> tuple[str | None, str | None]:
        """Name and user of `pid`; None for what can't be read (it has ended, or belongs to somebody else)."""
        self._asked.add(pid)
        if pid not in self._known:
            self._known[pid] = _name_and_user(pid)
        return self._known[pid]

    def forget_unasked(self) -> None:
        """Forget the processes that weren't asked for since the last call: their numbers may be used again."""
        self._known = {pid: known for pid, known in self._known.items() if pid in self._asked}
        self._asked = set()


def _name_and_user(pid: int) -> tuple[str | None, str | None]:
    name: str | None = None
    user: str | None = None
    try:
        process = psutil.Process(pid)
        name = process.name()
        user = process.username()
    except (psutil.Error, OSError):
        pass  # what was read until then is all there is
    return name, user
