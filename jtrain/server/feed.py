"""One reader per followed run, for all clients that follow it: it only looks at sizes and times of files."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from concurrent.futures import Executor
from dataclasses import dataclass, field

from jtrain.domain.devices import Sample
from jtrain.domain.messages import Cursor, PointsRow
from jtrain.domain.states import ALIVE, fold
from jtrain.errors import JtrainError
from jtrain.server.curves import RunCurves, read_starts
from jtrain.server.machine import Wakeable
from jtrain.server.samples import SampleTail
from jtrain.server.texts import log_size
from jtrain.store.journal import read_events
from jtrain.store.paths import RunPaths

_INTERVAL_S = 0.045
_REST_INTERVAL_S = 0.5
_REST_AFTER_S = 5.0
"""A run at rest that nothing has happened to for this long is looked at less often."""

_SHARE = 8.0
"""A look that takes long (thousands of metrics, a slow disk) is followed by a pause this many times as long."""

_MOST_SAMPLES = 120
_MOST_RANKS = 1024

logger = logging.getLogger("jtrain.server")

Stamp = tuple[int, int]


@dataclass(frozen=True)
class Look:
    """A run at one moment. `counts`: points of each metric in the latest attempt; `logs`: bytes by rank.

    `detail` changes with everything that GET runs/ID tells.
    """

    is_gone: bool = False
    attempt: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    logs: dict[int, int] = field(default_factory=dict)
    num_samples: int = 0
    detail: tuple[object, ...] = ()


class RunFeed:
    """Looks at one run while somebody follows it."""

    def __init__(self, paths: RunPaths, executor: Executor) -> None:
        self.paths = paths
        self.look = Look()
        self.devices: list[str] = []
        self.samples: deque[Sample] = deque(maxlen=_MOST_SAMPLES)
        self._curves = RunCurves(paths, {})
        self._executor = executor
        self._lock = threading.Lock()
        self._clients: set[Wakeable] = set()
        self._task: asyncio.Task[None] | None = None
        self._journal_stamp: Stamp | None = None
        self._sample_tail = SampleTail()
        self._num_samples = 0
        self._is_alive = True
        self._quiet_since = time.monotonic()
        self._rows: dict[tuple[str, int, int], tuple[bool, list[PointsRow]]] = {}
        self.has_looked = asyncio.Event()
        self._problem = ""

    def join(self, client: Wakeable) -> None:
        """`client` is woken at each change from now on."""
        self._clients.add(client)
        if self._task is None:
            self._task = asyncio.create_task(self._watch())

    def leave(self, client: Wakeable) -> bool:
        """`client` follows no more; whether it was the last one."""
        self._clients.discard(client)
        if not self._clients:
            self.close()
        return not self._clients

    def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        while not self.look.is_gone:
            began = time.monotonic()
            look = await self._try_to_take()
            if look is not None and look != self.look:
                self.look, self._rows = look, {}
                self._quiet_since = time.monotonic()
                for client in list(self._clients):
                    client.wake()
            now = time.monotonic()
            is_quiet = not self._is_alive and now - self._quiet_since > _REST_AFTER_S
            await asyncio.sleep(max(_REST_INTERVAL_S if is_quiet else _INTERVAL_S, _SHARE * (now - began)))

    async def _try_to_take(self) -> Look | None:
        """A look; None when the files can't be read now, which may pass."""
        try:
            look = await asyncio.get_running_loop().run_in_executor(self._executor, self._take)
        except (JtrainError, OSError) as error:
            if str(error) != self._problem:
                logger.warning("run %s can't be read: %s", self.paths.id, error)
            self._problem = str(error)
            return None
        self._problem = ""
        self.has_looked.set()
        return look

    # In a thread -----------------------------------------------------------------------------------------------

    def follow(self, name: str, cursor: Cursor | None) -> tuple[bool, list[PointsRow]]:
        """As RunCurves.follow; those who are equally far share what was read."""
        key = (name, cursor["attempt"] if cursor else -1, cursor["count"] if cursor else -1)
        with self._lock:
            if key not in self._rows:
                self._rows[key] = self._curves.follow(name, cursor)
            return self._rows[key]

    def names(self) -> list[str]:
        """All metrics so far."""
        with self._lock:
            return self._curves.names()

    def _take(self) -> Look:
        with self._lock:
            return self._look()

    def _look(self) -> Look:
        stamp = _stamp(self.paths.journal)
        if stamp is None:
            return Look(is_gone=True)
        if stamp != self._journal_stamp:
            self._read_journal()
            self._journal_stamp = stamp
        attempt = self._curves.latest
        self._read_samples(attempt)
        counts = self._count_points(attempt)
        names = tuple(counts)
        checkpoints = _stamp(self.paths.checkpoints)
        return Look(
            attempt=attempt,
            counts=counts,
            logs=self._size_logs(attempt),
            num_samples=self._num_samples,
            detail=(stamp, checkpoints, names, _stamp(self.paths.result)),
        )

    def _read_journal(self) -> None:
        events = read_events(self.paths.journal)
        standing = fold(events)
        self.devices = list(standing.devices)
        self._is_alive = standing.state in ALIVE
        self._curves.update(read_starts(events))

    def _count_points(self, attempt: int) -> dict[str, int]:
        reader = self._curves.reader(attempt)
        return {name: reader.count(name) for name in reader.names()} if reader else {}

    def _size_logs(self, attempt: int) -> dict[int, int]:
        sizes = {}
        for rank in range(min(max(1, len(self.devices)), _MOST_RANKS)) if attempt else ():
            size = log_size(self.paths, attempt, rank)
            if size is not None:
                sizes[rank] = size
        return sizes

    def _read_samples(self, attempt: int) -> None:
        if attempt:
            new = self._sample_tail.read(self.paths.attempt(attempt).samples)
            self.samples.extend(new)
            self._num_samples += len(new)


def _stamp(path: os.PathLike[str]) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
