"""The machine, read once a second for everybody who looks, and not at all when nobody does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from jtrain.domain.messages import MachineHistory, MachineState
from jtrain.errors import JtrainError
from jtrain.view.machine import MachineReader

INTERVAL_S = 1.0
_HISTORY_S = 300.0

logger = logging.getLogger("jtrain.server")


class Wakeable(Protocol):
    """Somebody who wants to know that there is something new."""

    def wake(self) -> None:
        """There is something new."""


class MachineWatch:
    """One sampler for all clients. `history` covers the last five minutes, as far as somebody looked."""

    def __init__(self, root: Path) -> None:
        self.state: MachineState | None = None
        self._reader = MachineReader(root)
        self._history: deque[MachineState] = deque(maxlen=int(_HISTORY_S / INTERVAL_S))
        self._clients: set[Wakeable] = set()
        self._task: asyncio.Task[None] | None = None
        # A thread of its own: a driver that hangs must not keep files from being read.
        self._executor = ThreadPoolExecutor(1, "jtrain-machine")
        self._labels: dict[str, str] = {}
        self._problem = ""
        self._is_closed = False

    def join(self, client: Wakeable) -> None:
        """`client` is woken at each sample from now on."""
        self._clients.add(client)
        if self._task is None:
            self._task = asyncio.create_task(self._sample())

    def leave(self, client: Wakeable) -> None:
        """`client` looks no more; when it was the last one, sampling ends."""
        self._clients.discard(client)
        if not self._clients and self._task is not None:
            self._task.cancel()
            self._task = self.state = None

    async def read(self) -> MachineState:
        """The machine now: what the watch has when somebody looks, else a reading of its own."""
        if self._task is not None and self.state is not None and time.time() - self.state["time"] < 2 * INTERVAL_S:
            return self.state
        return await self._read()

    def history(self) -> MachineHistory:
        """The last minutes."""
        kept = [state for state in self._history if time.time() - state["time"] < _HISTORY_S]
        uuids = dict.fromkeys(device["uuid"] for state in kept for device in state["devices"])
        by_uuid = [{device["uuid"]: device for device in state["devices"]} for state in kept]
        return {
            "times": [state["time"] for state in kept],
            "cpu_percent": [state["host"]["cpu_percent"] for state in kept],
            "memory_used_bytes": [state["host"]["memory_used_bytes"] for state in kept],
            "load_percent": {
                uuid: [rows[uuid]["load_percent"] if uuid in rows else None for rows in by_uuid] for uuid in uuids
            },
            "device_memory_used_bytes": {
                uuid: [rows[uuid]["memory_used_bytes"] if uuid in rows else None for rows in by_uuid] for uuid in uuids
            },
        }

    async def labels(self, uuids: list[str]) -> dict[str, str]:
        """Names of devices for people; the machine is asked once when one isn't known."""
        unknown = [uuid for uuid in uuids if uuid not in self._labels and not uuid.startswith("CPU-")]
        if unknown:
            await self._read()
            for uuid in unknown:
                self._labels.setdefault(uuid, uuid[:12])  # a device of another machine, or one that is gone
        return self._labels

    def close(self) -> None:
        """End for good; a reading that a driver doesn't end is not waited for."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _read(self) -> MachineState:
        state = await asyncio.get_running_loop().run_in_executor(self._executor, self._reader.read)
        self._labels |= {device["uuid"]: device["label"] for device in state["devices"]}
        return state

    async def _sample(self) -> None:
        self._executor.submit(self._reader.join)
        try:
            due = time.monotonic()
            while True:
                await self._take()
                due = max(due + INTERVAL_S, time.monotonic())
                await asyncio.sleep(due - time.monotonic())
        finally:
            if not self._is_closed:
                self._executor.submit(self._reader.leave)

    async def _take(self) -> None:
        try:
            self.state = await self._read()
        except (JtrainError, OSError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                logger.warning("the machine can't be read: %s", error)
            return
        self._history.append(self.state)
        for client in list(self._clients):
            client.wake()
