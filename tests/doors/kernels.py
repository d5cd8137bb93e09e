"""Real kernels, driven as a front end drives them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

_TIMEOUT_S = 90


@dataclass
class Outputs:
    """What a cell put out."""

    status: str = ""
    stdout: str = ""
    stderr: str = ""
    displays: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    message: str = ""
    traceback: str = ""
    kinds: set[str] = field(default_factory=set)

    @property
    def texts(self) -> list[str]:
        return [str(data.get("text/plain", "")) for data in self.displays]

    def add(self, message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        self.kinds.add(kind)
        if kind == "stream":
            setattr(self, content["name"], getattr(self, content["name"]) + content["text"])
        elif kind in ("display_data", "execute_result"):
            self.displays.append(content["data"])
        elif kind == "error":
            self.error, self.message = content["ename"], content["evalue"]
            self.traceback = "\n".join(content["traceback"])


class Notebook:
    """One kernel."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client

    def run(self, cell: str, interrupt_after: Sequence[float] = (), interrupt_when: str = "") -> Outputs:
        """Run a cell to its end. Interrupt it after some seconds, or as soon as it has printed `interrupt_when`."""
        outputs = Outputs()
        timers = [threading.Timer(seconds, self.manager.interrupt_kernel) for seconds in interrupt_after]

        def hear(message: dict[str, Any]) -> None:
            before = outputs.stdout
            outputs.add(message)
            if interrupt_when and interrupt_when in outputs.stdout and interrupt_when not in before:
                self.manager.interrupt_kernel()

        for timer in timers:
            timer.start()
        reply = self.client.execute_interactive(cell, timeout=_TIMEOUT_S, output_hook=hear, allow_stdin=False)
        for timer in timers:
            timer.join()
        outputs.status = reply["content"]["status"]
        return outputs

    def value(self, expression: str) -> str:
        """The repr of an expression."""
        reply = self.client.execute_interactive(
            "", user_expressions={"it": expression}, timeout=_TIMEOUT_S, output_hook=lambda _: None
        )
        found = reply["content"]["user_expressions"]["it"]
        assert found["status"] == "ok", found
        return found["data"]["text/plain"]


@contextlib.contextmanager
def start_kernel(home: Path, **environment: str) -> Iterator[Notebook]:
    """A kernel with jtrain loaded, whose store is `home`; nothing of it may be left afterwards."""
    manager = KernelManager(kernel_name="python3")
    machine = home.parent / f"{home.name}-machine"
    own = {"JTRAIN_HOME": str(home), "JTRAIN_MACHINE_DIR": str(machine), "OMP_NUM_THREADS": "1"}
    manager.start_kernel(env={**os.environ, **own, **environment}, cwd=str(home))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=_TIMEOUT_S)
        notebook = Notebook(manager, client)
        assert notebook.run("%load_ext jtrain").status == "ok"
        yield notebook
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        left = processes_of(home)
        _, alive = psutil.wait_procs(left, timeout=20)
        for process in alive:
            process.kill()
        assert not alive, f"processes left behind: {alive}"


def processes_of(home: Path) -> list[psutil.Process]:
    """The processes that use the store `home`."""
    mark = f"JTRAIN_HOME={home}".encode()
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):
            if process.pid != os.getpid() and mark in Path(f"/proc/{process.pid}/environ").read_bytes():
                found.append(process)
    return found
