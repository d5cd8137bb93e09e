"""The list of runs, looked at a few times a second for everybody who looks, and not at all when nobody does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from dataclasses import replace

from jtrain.domain.messages import RunRow
from jtrain.domain.states import ALIVE, State
from jtrain.errors import JtrainError, StoreError
from jtrain.run import Run
from jtrain.server.machine import Wakeable
from jtrain.server.rows import run_row
from jtrain.store.choice import Stamp, choice_stamp, read_choice
from jtrain.store.index import RunSummary
from jtrain.store.runs import RunStore, is_interrupted

_INTERVAL_S = 0.3
_RELIST_S = 30.0
"""How often folders are compared with the index though the folder of runs looks unchanged."""

_MOST_LOOKED_AT = 300
"""Resting runs whose journals are looked at in one round: another process may have resumed one."""

_AT_WORK = frozenset({State.STARTING, State.RUNNING, State.PAUSING})
_SHARE = 8.0
"""A round that takes long is followed by a pause this many times as long."""

logger = logging.getLogger("jtrain.server")

JournalStamp = tuple[int, int]


class RunList:
    """Rows of all runs by id, newest first, and the choice of devices, as of the last look."""

    def __init__(self, store: RunStore) -> None:
        self.rows: dict[str, RunRow] = {}
        self.choice: list[str] = []
        self._store = store
        self._summaries: dict[str, RunSummary] = {}
        self._stamps: dict[str, JournalStamp] = {}
        self._living: dict[str, Run] = {}
        self._made: dict[str, tuple[RunSummary, RunRow]] = {}
        self._lock = threading.Lock()
        self._folder_stamp = -1
        self._relist_at = 0.0
        self._next_resting = 0
        self._choice_stamp: Stamp | None = None
        self._clients: set[Wakeable] = set()
        self._task: asyncio.Task[None] | None = None
        self._is_ready = asyncio.Event()
        self._hurry = asyncio.Event()
        self._problem = ""

    def join(self, client: Wakeable) -> None:
        """`client` is woken at each change from now on."""
        self._clients.add(client)
        if self._task is None:
            self._task = asyncio.create_task(self._watch())

    def leave(self, client: Wakeable) -> None:
        """`client` looks no more; when it was the last one, nothing is looked at any more."""
        self._clients.discard(client)
        if not self._clients and self._task is not None:
            self._task.cancel()
            self._task = None
            self._is_ready.clear()

    @property
    def is_ready(self) -> bool:
        """Whether there was a look at all."""
        return self._is_ready.is_set()

    def hurry(self) -> None:
        """Something was done here: look now."""
        self._relist_at = 0.0
        self._hurry.set()

    async def read(self) -> list[RunRow]:
        """All runs now, newest first. Raises JtrainError or OSError when they can't be listed."""
        if self._task is None or self._problem:
            self._relist_at = 0.0
            await asyncio.to_thread(self._look)
        else:
            await self._is_ready.wait()
        return list(self.rows.values())

    def close(self) -> None:
        """End for good."""
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while True:
            began = time.monotonic()
            if await self._try_to_look():
                for client in list(self._clients):
                    client.wake()
            self._hurry.clear()
            pause_s = max(_INTERVAL_S, _SHARE * (time.monotonic() - began))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), pause_s)

    async def _try_to_look(self) -> bool:
        """Look, and say whether anything has changed; a store that can't be read now may be readable soon."""
        try:
            has_changed = await asyncio.to_thread(self._look)
        except (JtrainError, OSError) as error:
            if str(error) != self._problem:
                logger.warning("the runs can't be listed: %s", error)
            self._problem = str(error)
            return False
        self._problem = ""
        self._is_ready.set()
        return has_changed

    # In a thread -----------------------------------------------------------------------------------------------

    def _look(self) -> bool:
        """Look at the store; whether anything has changed."""
        with self._lock:
            before, choice = self.rows, self.choice
            if self._must_list():
                self._list()
            else:
                self._look_at_journals()
            self._find_interrupted()
            rows = {summary.id: self._row(summary) for summary in self._summaries.values()}
            if rows != before:
                self.rows = rows
            self._read_choice()
            return self.rows is not before or self.choice is not choice

    def _must_list(self) -> bool:
        try:
            stamp = os.stat(self._store.paths.runs).st_mtime_ns
        except OSError:
            stamp = 0
        is_changed, self._folder_stamp = stamp != self._folder_stamp, stamp
        if not is_changed and time.monotonic() < self._relist_at:
            return False
        self._relist_at = time.monotonic() + _RELIST_S
        return True

    def _list(self) -> None:
        self._summaries = {summary.id: summary for summary in self._store.list()}
        self._made = {run_id: made for run_id, made in self._made.items() if run_id in self._summaries}
        self._living = {run_id: run for run_id, run in self._living.items() if run_id in self._summaries}
        self._stamps = {run_id: stamp for run_id, stamp in self._stamps.items() if run_id in self._summaries}
        for run_id, summary in self._summaries.items():
            if summary.state in ALIVE:
                self._note_living(run_id)
        for run_id in self._changed(list(self._summaries)[:_MOST_LOOKED_AT]):
            self._summarise(run_id)

    def _note_living(self, run_id: str) -> None:
        if run_id not in self._living:
            with contextlib.suppress(StoreError, OSError):
                self._living[run_id] = Run(run_id, self._store)

    def _look_at_journals(self) -> None:
        ids = list(self._summaries)
        resting = ids[self._next_resting : self._next_resting + _MOST_LOOKED_AT]
        self._next_resting = (
            self._next_resting + _MOST_LOOKED_AT if self._next_resting + _MOST_LOOKED_AT < len(ids) else 0
        )
        for run_id in self._changed([*self._living, *ids[: _MOST_LOOKED_AT // 3], *resting]):
            self._summarise(run_id)

    def _changed(self, ids: list[str]) -> list[str]:
        """Those whose journal has changed since it was looked at last."""
        changed = []
        for run_id in dict.fromkeys(ids):
            try:
                found = os.stat(self._store.paths.run(run_id).journal)
            except OSError:
                continue  # removed: the folder of runs says so in the next round
            stamp = (found.st_mtime_ns, found.st_size)
            if self._stamps.get(run_id) != stamp:
                # What was listed a moment ago needn't be read again, unless it lives.
                changed += [run_id] if run_id in self._stamps or run_id in self._living else []
                self._stamps[run_id] = stamp
        return changed

    def _summarise(self, run_id: str) -> None:
        with contextlib.suppress(StoreError, OSError):
            summary = self._store.summarise(run_id)
            self._summaries[run_id] = summary
            if summary.state in ALIVE:
                self._note_living(run_id)
            else:
                self._living.pop(run_id, None)

    def _find_interrupted(self) -> None:
        for run_id, run in list(self._living.items()):
            summary = self._summaries[run_id]
            # An event that is no move makes a run no younger; only a move does, and that is in the journal's fold.
            is_dead = summary.state in ALIVE and is_interrupted(run.paths, summary.state, self._since(run_id))
            if is_dead != summary.is_interrupted:
                self._summaries[run_id] = replace(summary, is_interrupted=is_dead)

    def _since(self, run_id: str) -> float:
        stamp = self._stamps.get(run_id)
        return stamp[0] / 1e9 if stamp else time.time()

    def _row(self, summary: RunSummary) -> RunRow:
        run = self._living.get(summary.id)
        if run is not None and summary.state in _AT_WORK:
            return run_row(summary, run.progress)
        made = self._made.get(summary.id)
        if made is None or made[0] is not summary:
            made = self._made[summary.id] = (summary, run_row(summary, None))
        return made[1]

    def _read_choice(self) -> None:
        root = self._store.paths.root
        stamp = choice_stamp(root)
        if stamp != self._choice_stamp:
            with contextlib.suppress(StoreError):
                self.choice = read_choice(root)
                self._choice_stamp = stamp
