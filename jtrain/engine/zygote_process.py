"""The zygote's own process: imports what ranks need, then forks supervisors until its kernel is gone.

It never runs an operation of torch, touches no device and has one thread: checked before every fork. While it is idle
it imports the rest of what a rank's first steps would import, and keeps one supervisor forked in advance, so that a run
doesn't wait for that fork.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import socket
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from jtrain.engine.hugepages import collapse_memory

_POLL_S = 1.0
_IDLE_S = 0.3
"""Without a launch: then there is time to prepare for later ones."""
_SPARE_AFTER_S = 0.1
"""After a launch: by then its ranks, which need the processor more, are up."""
_READ_BYTES = 1 << 16


def serve(descriptor: int, kernel_pid: int) -> None:
    """Fork a supervisor for each message on the socket `descriptor` until the process `kernel_pid` is gone."""
    Helper(socket.socket(fileno=descriptor), kernel_pid).run()


class Helper:
    """The helper's loop and its spare supervisor."""

    def __init__(self, connection: socket.socket, kernel_pid: int) -> None:
        self._connection = connection
        self._kernel_pid = kernel_pid
        self._spare: Spare | None = None
        self._preparation = _prepare()
        self._has_begun = False
        self._is_complete = False

    def run(self) -> None:
        """Serve until the kernel closes its end or ends."""
        connection = self._connection
        connection.setblocking(True)
        _import_heavy_modules()
        connection.sendall(b'{"ready": true}\n')
        pending = b""
        while os.getppid() == self._kernel_pid:
            readable, _, _ = select.select([connection], [], [], self._patience_s())
            _reap()
            if not readable:
                self._work()
                continue
            data = connection.recv(_READ_BYTES)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                connection.sendall(json.dumps(self._start(line)).encode() + b"\n")

    def _patience_s(self) -> float:
        """How long to wait for a launch before the next piece of work."""
        if not self._is_complete:
            return 0.0 if self._has_begun else _IDLE_S
        return _SPARE_AFTER_S if self._spare is None else _POLL_S

    def _work(self) -> None:
        """One piece of what makes later launches quicker."""
        if not self._is_complete:
            self._has_begun = True
            self._is_complete = next(self._preparation, "all done") is not None
        elif self._spare is None and _has_single_thread():
            self._spare = self._fork_spare()

    def _start(self, line: bytes) -> dict[str, Any]:
        spare, self._spare = self._spare, None
        if spare is not None and spare.start(line):
            return {"pid": spare.pid}
        if not _has_single_thread():
            return {"error": "the helper process has more than one thread and must not fork"}
        pid = os.fork()
        if pid == 0:
            _be_supervisor(line, self._connection)
        return {"pid": pid}

    def _fork_spare(self) -> Spare:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(writing)
            _wait_for_run(reading, self._connection)
        os.close(reading)
        return Spare(pid, writing)


class Spare:
    """A supervisor without a run yet. It ends when the helper does."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self._descriptor = descriptor

    def start(self, line: bytes) -> bool:
        """Give it its run; False when it is gone."""
        try:
            left = memoryview(line + b"\n")
            while left:
                left = left[os.write(self._descriptor, left) :]
        except BrokenPipeError:
            return False
        finally:
            os.close(self._descriptor)
        return True


def _wait_for_run(reading: int, connection: socket.socket) -> NoReturn:
    _rehearse()
    data = b""
    while not data.endswith(b"\n"):
        part = os.read(reading, _READ_BYTES)
        if not part:
            os._exit(0)
        data += part
    os.close(reading)
    _be_supervisor(data, connection)


def _rehearse() -> None:
    """Do what a supervisor does first, so that the memory it touches is this process's own when a run comes."""
    from jtrain.domain.spec import RunSpec, Source
    from jtrain.options import RunOptions

    spec = RunSpec(id="a-b-1", name="", created=0.0, seed=0, source=Source(kind="cell"), options=RunOptions())
    RunSpec.model_validate_json(spec.model_dump_json())


def _be_supervisor(line: bytes, connection: socket.socket) -> NoReturn:
    """Own the run that the message names, to its end, and end this forked process."""
    status = 1
    try:
        from jtrain.engine import supervisor

        message = json.loads(line)
        supervisor.become_detached(Path(message["root"]), leave=connection.close)
        os.environ.clear()
        os.environ.update(message["env"])
        with contextlib.suppress(OSError):  # the folder may be gone; the run's own folder decides what counts
            os.chdir(message["cwd"])
        supervisor.main(message["root"])
        status = 0
    except BaseException:  # noqa: BLE001 - a forked child must never return into the helper's loop
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _import_heavy_modules() -> None:
    import jtrain.engine.supervisor
    import jtrain.worker.preload  # noqa: F401

    _freeze()


def _prepare() -> Iterator[None]:
    """Step by step, what makes later launches quicker: what torch would import at a rank's first optimizer step (about
    a second), and huge pages."""
    import jtrain.worker.preload_idle  # noqa: F401

    _freeze()
    yield
    yield from collapse_memory()


def _freeze() -> None:
    """Objects made so far are never looked at by a collector again, so forked children don't copy their pages."""
    gc.collect()
    gc.freeze()


def _has_single_thread() -> bool:
    return len(os.listdir("/proc/self/task")) == 1


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
