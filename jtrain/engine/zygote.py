"""The zygote: a helper process that has imported torch, so that a run starts in a few hundredths of a second.

It is started when the extension is loaded into a kernel, imports everything a rank needs, touches no device, starts no
thread, and then forks a supervisor for each run. It ends when its kernel does; its supervisors don't. This module is
the kernel's side of it, `zygote_process` the helper itself.

On a system without a safe fork, or without a zygote (the command line), a supervisor is started afresh: slower, else
the same.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jtrain.errors import LaunchError
from jtrain.store.paths import RunPaths

_READY_TIMEOUT_S = 120.0
_MAX_MESSAGE = 4 * 1024 * 1024
_CAN_FORK = sys.platform == "linux"

_AFRESH = """
import os
given = dict(os.environ)
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from jtrain.engine.supervisor import main
os.environ.clear()
os.environ.update(given)
main(sys.argv[2])
os._exit(0)
"""
"""A supervisor of its own. As in a zygote, OpenBLAS must start no threads in it; its ranks get the user's setting.
It leaves at once, since taking all that torch has loaded apart would keep a processor busy for a second."""


def start(root: Path, extra_environment: Mapping[str, str] | None = None) -> None:
    """Start a supervisor for the run at `root`, through this process's zygote when there is one.

    It gets this process's environment (with `extra_environment`) and working directory as they are now.
    Raises LaunchError.
    """
    environment = {**os.environ, **(extra_environment or {})}
    zygote = _current()
    if zygote is not None:
        try:
            zygote.start(root, environment)
            return
        except (OSError, ValueError) as error:
            # A dead zygote costs speed, not the run.
            _forget(f"{type(error).__name__}: {error}")
    _start_afresh(root, environment)


def start_for_kernel() -> None:
    """Start this process's zygote and return at once; a second call does nothing."""
    global _zygote
    with _lock:
        if _CAN_FORK and (_zygote is None or not _zygote.is_alive):
            _zygote = Zygote()


def _start_afresh(root: Path, environment: Mapping[str, str]) -> None:
    with open(RunPaths(root).supervisor_log, "ab") as log:
        try:
            subprocess.Popen(
                [*_python(_AFRESH), str(root)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=environment,
                cwd=_working_directory(),
            )
        except OSError as error:
            raise LaunchError(f"the run's supervisor could not be started with {sys.executable}: {error}") from error


def _python(program: str) -> list[str]:
    """A command that runs `program` with this process's import path, but without the working folder in front of it:
    a file there that is called like a library must not break jtrain. `program`'s arguments start at `sys.argv[2]`."""
    path = json.dumps([entry for entry in sys.path if entry])
    return [sys.executable, "-P", "-c", f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); {program}", path]


class Zygote:
    """The kernel's end: a child process and a socket to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._is_ready = False
        arguments = [str(theirs.fileno()), str(os.getpid())]
        # OpenBLAS starts its threads when numpy is imported; a process that forks must not have any.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        try:
            self._process = subprocess.Popen(
                [
                    *_python("from jtrain.engine.zygote_process import serve; serve(*map(int, sys.argv[2:]))"),
                    *arguments,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a kernel's interrupt goes to its whole process group
                env=environment,
            )
        finally:
            theirs.close()
        self._socket = ours
        self._file = ours.makefile("rb")
        ours.settimeout(_READY_TIMEOUT_S)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the helper runs and belongs to this process (not to the one this was forked from)."""
        return self._owner == os.getpid() and self._process.poll() is None

    def start(self, root: Path, environment: Mapping[str, str]) -> None:
        """Have a supervisor forked for the run at `root`. Raises OSError or ValueError when the helper is gone."""
        message = {"root": str(root), "env": dict(environment), "cwd": _working_directory()}
        with self._lock:
            if not self._is_ready:
                self._receive()
                self._is_ready = True
            self._socket.sendall(json.dumps(message).encode() + b"\n")
            answer = self._receive()
        if "pid" not in answer:
            raise ValueError(str(answer.get("error", "no answer")))

    def _receive(self) -> dict[str, Any]:
        line = self._file.readline(_MAX_MESSAGE)
        if not line:
            raise ConnectionError("the helper process ended")
        return json.loads(line)

    def close(self) -> None:
        """End the helper; supervisors go on."""
        if self._owner != os.getpid():
            return
        with contextlib.suppress(OSError):
            self._socket.close()
        self._process.terminate()
        self._process.wait(timeout=5)


_zygote: Zygote | None = None
_lock = threading.Lock()


def helper_pid() -> int | None:
    """The process id of this process's zygote, or None."""
    zygote = _current()
    return zygote.pid if zygote is not None else None


def _current() -> Zygote | None:
    return _zygote if _zygote is not None and _zygote.is_alive else None


def _forget(why: str) -> None:
    global _zygote
    import logging

    logging.getLogger("jtrain").info("the helper process is gone (%s); starting without it", why)
    if _zygote is not None:
        _zygote.close()
    _zygote = None


@atexit.register
def close_for_kernel() -> None:
    """End this process's zygote; runs that it started go on. Called at the process's end too."""
    global _zygote
    if (zygote := _current()) is not None:
        zygote.close()
    _zygote = None


def _working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.path.expanduser("~")
