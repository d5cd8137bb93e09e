"""The machine without its GPUs: CPUs, memory and disk (psutil and control groups)."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from jtrain.devices.cgroups import ControlGroups, CpuLimit
from jtrain.domain.devices import HostSample, Reading, missing

_TOO_SOON = "CPU use needs two readings some time apart"
_SHORTEST_S = 0.1
"""CPU seconds between two readings from which on their difference means something: the system counts in 0.01 s."""


def cpu_count(groups: ControlGroups | None = None) -> int:
    """CPUs that this process may use, at least 1: its affinity, and the whole CPUs of its control group's quota."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        allowed = os.cpu_count() or 1
    quota = (groups or ControlGroups()).cpu()
    return max(1, min(allowed, int(quota.cpus))) if quota else max(1, allowed)


def oom_kills(groups: ControlGroups | None = None) -> int:
    """How many processes the kernel's memory killer has ended in this control group (or on this machine) until now."""
    return (groups or ControlGroups()).oom_kills()


class Host:
    """Reads the host's sample. Each reading fails alone, with its reason."""

    def __init__(
        self,
        disk: Path | None = None,
        *,
        groups: ControlGroups | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._disk = disk
        self._groups = groups or ControlGroups()
        self._cpu = CpuUse(self._groups.cpu(), clock)

    def sample(self) -> HostSample:
        used, total = self._memory()
        return HostSample(self._cpu.read(), used, total, self._disk_free())

    def describe(self) -> list[str]:
        """What limits this process, in sentences."""
        sentences = [f"{cpu_count(self._groups)} of {os.cpu_count()} CPUs can be used by this process."]
        if quota := self._groups.cpu():
            sentences.append(f"A control group (container or service) limits it to {quota.cpus:g} CPUs.")
        if memory := self._groups.memory():
            limit = Reading(memory.limit_bytes, "B")
            sentences.append(f"A control group (container or service) limits it to {limit} of memory.")
        return sentences

    def _memory(self) -> tuple[Reading, Reading]:
        """Used and total."""
        try:
            memory = psutil.virtual_memory()
        except (OSError, psutil.Error) as error:
            return missing(str(error)), missing(str(error))
        limit = self._groups.memory()
        if limit and limit.limit_bytes < memory.total:
            return Reading(limit.used_bytes), Reading(limit.limit_bytes)
        return Reading(memory.total - memory.available), Reading(memory.total)

    def _disk_free(self) -> Reading:
        if self._disk is None:
            return missing("no folder was given")
        try:
            return Reading(shutil.disk_usage(self._disk).free)
        except OSError as error:
            return missing(f"{self._disk}: {error.strerror}")


class CpuUse:
    """How busy the usable CPUs are: of the control group's quota when there is one, else of the whole machine."""

    def __init__(self, limit: CpuLimit | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._last = self._measure()

    def read(self) -> Reading:
        """The share since the last call, in percent."""
        last, now = self._last, self._measure()
        if last is None or now is None:
            self._last = now or last
            return missing("the system's CPU times can't be read")
        busy, available = now[0] - last[0], now[1] - last[1]
        if available < _SHORTEST_S:
            return missing(_TOO_SOON)
        self._last = now
        return Reading(round(min(100.0, max(0.0, 100.0 * busy / available)), 1))

    def _measure(self) -> tuple[float, float] | None:
        """CPU seconds used, and CPU seconds that could have been used, both from some common start."""
        if self._limit:
            used = self._limit.used_seconds()
            return None if used is None else (used, self._clock() * self._limit.cpus)
        try:
            times = psutil.cpu_times()
        except OSError:
            return None
        # Linux counts a guest's time in user time as well.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        idle = times.idle + getattr(times, "iowait", 0.0)
        return total - idle, total
