"""Samples of the machine: the best source there is, one clock, and no exception ever.

Importing this module is cheap: the sources load their libraries when they are first asked.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from jtrain.devices import visible
from jtrain.devices.best import BestSource
from jtrain.devices.host import Host, cpu_count
from jtrain.devices.processes import Processes, ProcessNames
from jtrain.domain.devices import Device, DeviceSample, Reading, Sample, missing

_NOT_LISTED = "the driver lists no GPU memory for this process"


def visible_devices(environ: Mapping[str, str] | None = None) -> list[Device]:
    """GPUs and MIG slices that this process may use, named as the machine names them; empty without any.

    Honours CUDA_VISIBLE_DEVICES of `environ` (default: the process's own environment).
    """
    with contextlib.closing(Sampler()) as sampler:
        return visible.select_visible(sampler.devices(), os.environ if environ is None else environ)


def cpu_slots(environ: Mapping[str, str] | None = None) -> list[Device]:
    """The CPU's slots as devices. Raises OptionError when `JTRAIN_CPU_SLOTS` is no number."""
    return visible.cpu_slots(os.environ if environ is None else environ, cpu_count())


class Sampler:
    """Reads the machine, and the processes `pids` (rank to process id) of a run.

    `store_dir` is the folder whose free disk space is read; `only` restricts the GPUs to some UUIDs.
    """

    def __init__(
        self,
        store_dir: Path | None = None,
        pids: Mapping[int, int] | None = None,
        *,
        only: Collection[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._only = only
        self._host = Host(store_dir, clock=clock)
        self._processes = Processes({} if pids is None else pids, clock)
        self._names = ProcessNames()
        self._gpus = BestSource(clock=clock)

    def devices(self) -> list[Device]:
        """All GPUs and MIG slices of the machine that can be seen."""
        return self._gpus.devices()

    def sample(self) -> Sample:
        """All readings of this moment."""
        now = time.time()
        gpus = tuple(gpu for gpu in self._gpus.read(self._names) if self._only is None or gpu.uuid in self._only)
        self._names.forget_unasked()
        workers = self._processes.sample(lambda pid: _gpu_memory(gpus, pid))
        return Sample(round(now, 3), self._host.sample(), gpus, workers)

    def source_report(self) -> list[str]:
        """Where readings come from, what there is none of and why, in sentences for people."""
        sentences = self._gpus.describe()
        sentences += visible.explain_visible(self.devices(), os.environ)
        return sentences + self._host.describe()

    def interrupt(self) -> None:
        """End a reading that another thread waits for, where that is possible."""
        self._gpus.interrupt()

    def close(self) -> None:
        """Let go of the driver; the next reading opens it again."""
        self._gpus.close()


def _gpu_memory(gpus: tuple[DeviceSample, ...], pid: int) -> Reading:
    """What a process holds on all GPUs. Missing, not 0, when it isn't listed: a container may count processes anew."""
    if not gpus:
        return missing("no GPU can be seen")
    found = [process.memory_bytes for gpu in gpus for process in gpu.processes if process.pid == pid]
    known = [memory for memory in found if memory is not None]
    if not known or len(known) < len(found):
        return missing(next((gpu.processes_reason for gpu in gpus if gpu.processes_reason), _NOT_LISTED))
    return Reading(sum(known))


class SampleThread:
    """Appends a sample to the file `path`, as a JSON line, every `interval_s` seconds until it is stopped.

    Samples are due at fixed times, so that their distance doesn't drift; one that comes too late for its time is left
    out. A full disk loses samples (`num_lost` counts them), never the run. After `stop` the process may fork again.
    """

    def __init__(
        self,
        path: Path,
        interval_s: float = 1.0,
        pids: Mapping[int, int] | None = None,
        *,
        store_dir: Path | None = None,
        only: Collection[str] | None = None,
        first_after_s: float = 0.0,
    ) -> None:
        self.num_lost = 0
        self._first_after_s = first_after_s
        self._path = path
        self._interval_s = interval_s
        self._sampler = Sampler(store_dir or path.parent, pids, only=only)
        self._clock = time.monotonic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, name="jtrain-samples", daemon=True)

    def start(self) -> None:
        """Begin; the first sample is taken soon."""
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End the thread and wait until the system has no such thread; False if a driver hangs for longer than that."""
        self._stop.set()
        if self._thread.ident is None:
            return True
        deadline = time.monotonic() + timeout_s
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._sampler.interrupt()
            self._thread.join(min(0.2, timeout_s))
        # `join` returns a moment before the system's thread is gone, and a fork must not see it.
        while _is_thread(self._thread.native_id) and time.monotonic() < deadline:
            time.sleep(0.001)
        return not self._thread.is_alive()

    def _main(self) -> None:
        # Signals are for the main thread: one delivered here wouldn't wake it.
        signal.pthread_sigmask(
            signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE}
        )
        self._run()

    def _run(self) -> None:
        if self._first_after_s:
            self._stop.wait(self._first_after_s)
        due = self._clock()
        try:
            while not self._stop.is_set():
                self._take()
                late_s = self._clock() - due
                due += self._interval_s * (1 + late_s // self._interval_s)
                self._stop.wait(max(0.0, due - self._clock()))
        finally:
            self._sampler.close()

    def _take(self) -> None:
        line = json.dumps(self._sampler.sample().to_json(), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        try:
            with open(self._path, "ab", buffering=0) as file:
                start = file.tell()
                if file.write(line) != len(line):
                    file.truncate(start)
                    self.num_lost += 1
        except OSError:
            self.num_lost += 1


def _is_thread(native_id: int | None) -> bool:
    return os.path.exists(f"/proc/self/task/{native_id}")
