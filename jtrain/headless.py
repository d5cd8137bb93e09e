"""A notebook without a browser: its cells run in a kernel, their output goes to the terminal, and into a copy."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from jtrain.errors import LaunchError

_EXIT_CODES = {"paused": 75, "stopped": 130}


class _LiveClient(NotebookClient):
    """Prints outputs as they come, and passes interrupts on to the kernel.

    The cell that waits there pauses its run; a second interrupt stops it.
    """

    @contextlib.asynccontextmanager
    async def async_setup_kernel(self, **options: Any) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[None]] = []
        async with super().async_setup_kernel(**options):
            # In place of nbclient's own handler, which would end the kernel.
            loop.add_signal_handler(signal.SIGINT, lambda: tasks.append(loop.create_task(self._interrupt())))
            yield

    async def _interrupt(self) -> None:
        await self.km.interrupt_kernel()

    def output(self, outs: Any, msg: Any, display_id: str, cell_index: int) -> Any:
        show(msg["content"], msg["msg_type"])
        return super().output(outs, msg, display_id, cell_index)


def show(content: dict[str, Any], kind: str) -> None:
    """Print an output message of a kernel."""
    if kind == "stream":
        target = sys.stderr if content["name"] == "stderr" else sys.stdout
        target.write(content["text"])
        target.flush()
    elif kind in ("display_data", "execute_result"):
        print(content["data"].get("text/plain", ""), flush=True)
    elif kind == "error":
        print("\n".join(content["traceback"]), file=sys.stderr, flush=True)


def execute(notebook: dict[str, Any], path: Path, output: Path) -> int:
    """Run all cells; returns an exit code. The copy in `output` is written whatever happens.

    Raises LaunchError when the kernel can't be started or dies, or the copy can't be written.
    """
    node = nbformat.reads(json.dumps(notebook), as_version=4)
    client = _LiveClient(
        node,
        timeout=None,
        kernel_name="python3",  # this Python, whatever the notebook was written with
        resources={"metadata": {"path": str(path.absolute().parent)}},
        store_widget_state=False,
    )
    try:
        code = asyncio.run(_execute(client))
    except (DeadKernelError, RuntimeError) as error:
        raise LaunchError(f"the kernel of {path} could not be started, or has died: {error}") from error
    finally:
        _write(node, output)
    print(f"written to {output}")
    return code


async def _execute(client: _LiveClient) -> int:
    try:
        await client.async_execute()
    except CellExecutionError as error:
        if error.ename == "RunInterrupted":
            return next((code for word, code in _EXIT_CODES.items() if word in error.evalue), 130)
        return 130 if error.ename == "KeyboardInterrupt" else 1
    return 0


def _write(node: Any, output: Path) -> None:
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(node, output)
    except OSError as error:
        raise LaunchError(f"the executed notebook can't be written to {output}: {error.strerror}") from error
