"""The store: makes, finds, lists and removes runs."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from jtrain.domain.spec import RunSpec
from jtrain.domain.states import ALIVE, State
from jtrain.errors import RunNotFoundError, StoreError, nearest
from jtrain.store.files import is_locked, sync_file, sync_folder, write_atomic
from jtrain.store.index import RunIndex, RunSummary
from jtrain.store.journal import Journal, read_standing
from jtrain.store.names import new_run_id
from jtrain.store.paths import RunPaths, StorePaths, check_run_id, store_root

_ASIDE = ".new-"
_STARTING_GRACE_S = 20.0
"""How long after its creation a run may be without a supervisor (which may have to import torch first) before it
counts as interrupted."""
_OWNED_GRACE_S = 0.5
"""The same for a run that had a supervisor: just long enough for one that takes over."""


class RunStore:
    """One user's runs below `root` (default: `$JTRAIN_HOME`, else the user's data folder)."""

    def __init__(self, root: Path | None = None) -> None:
        self.paths = StorePaths(root or store_root())
        self.index = RunIndex(self.paths.index)

    def prepare(self) -> None:
        """Make the store's folders. Raises StoreError naming the folder when that can't be done."""
        try:
            self.paths.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.paths.runs.mkdir(exist_ok=True, mode=0o700)
            probe = self.paths.runs / f"{_ASIDE}probe-{os.getpid()}-{os.urandom(3).hex()}"
            probe.mkdir()
            probe.rmdir()
        except OSError as error:
            raise StoreError(
                f"jtrain can't write its runs to {self.paths.root}: {error.strerror or error}. "
                "Make room there or allow writing, or set JTRAIN_HOME to another folder."
            ) from error

    def new_id(self) -> str:
        """An id that no run of this store has."""
        while True:
            run_id = new_run_id()
            if not (self.paths.runs / run_id).exists():
                return run_id

    @contextlib.contextmanager
    def create(self, run_id: str) -> Iterator[RunPaths]:
        """Build a run aside: fill the yielded folder, and it becomes the run `run_id` when the block ends well.

        A run therefore exists whole or not at all. Raises StoreError when the disk is full or not writable.
        """
        final = self.paths.run(run_id).root
        aside = RunPaths(self.paths.runs / f"{_ASIDE}{run_id}")
        try:
            aside.root.mkdir(mode=0o700)
            aside.inbox.mkdir()
            aside.attempts.mkdir()
            aside.checkpoints.mkdir()
            yield aside
            os.rename(aside.root, final)
        except OSError as error:
            shutil.rmtree(aside.root, ignore_errors=True)
            if isinstance(error, StoreError):
                raise
            raise StoreError(
                f"the run could not be written to {self.paths.root}: {error.strerror or error}. "
                "Make room there (`%jtrain clean` removes old runs), or set JTRAIN_HOME to another folder."
            ) from error
        except BaseException:
            shutil.rmtree(aside.root, ignore_errors=True)
            raise

    def write_spec(self, paths: RunPaths, spec: RunSpec) -> None:
        """Put `spec` and the first event into a run that is being created.

        Not synced: that would make every launch wait for the disk. The supervisor makes a run durable a second later.
        """
        try:
            content = spec.model_dump_json(indent=1)
        except ValueError as error:
            raise StoreError(f"the run's options or config can't be written down as text: {error}") from error
        write_atomic(paths.spec, content, sync=False)
        Journal(paths.journal).write("queued", reason="created")

    def make_durable(self, run_id: str) -> None:
        """Have the disk hold what a living run's folder says; a file system that can't is left alone."""
        paths = self.paths.run(run_id)
        with contextlib.suppress(OSError):
            for path in (paths.spec, paths.journal):
                sync_file(path)
            for folder in (paths.root, self.paths.runs):
                sync_folder(folder)

    def find(self, run_id: str) -> RunPaths:
        """Paths of an existing run; raises RunNotFoundError naming the nearest one."""
        paths = self.paths.run(run_id)
        if not paths.spec.exists():
            guess = nearest(run_id, self._folders())
            hint = f"; did you mean {guess}?" if guess else "; `%jtrain runs` lists all"
            raise RunNotFoundError(f"there is no run {run_id!r} in {self.paths.root}{hint}")
        return paths

    def read_spec(self, run_id: str) -> RunSpec:
        """The spec of a run. Raises RunNotFoundError, or StoreError when the file is damaged."""
        path = self.find(run_id).spec
        try:
            return RunSpec.model_validate_json(path.read_bytes())
        except ValueError as error:
            raise StoreError(f"the spec of run {run_id} is damaged or of a newer jtrain ({path}): {error}") from error

    def summarise(self, run_id: str) -> RunSummary:
        """One run's summary, read from its folder."""
        paths = self.find(run_id)
        spec = self.read_spec(run_id)
        standing = read_standing(paths.journal)
        ended = standing.ended
        summary = RunSummary(
            id=run_id,
            name=spec.name,
            state=standing.state,
            reason=standing.reason,
            created=spec.created,
            ended=ended,
            attempt=standing.attempt,
            tags=dict(spec.options.tag),
            notebook=spec.notebook,
            priority=spec.options.priority if standing.priority is None else standing.priority,
            devices=standing.devices,
        )
        return replace(summary, is_interrupted=is_interrupted(paths, standing.state, standing.since))

    def list(self, limit: int | None = None) -> list[RunSummary]:
        """Runs, newest first. New and vanished folders and living runs are looked at, all else comes from the index."""
        try:
            fresh = self._refresh()
            found = self.index.newest(limit)
        except (sqlite3.Error, OSError):
            found = sorted(self._read(self._folders()), key=lambda s: (-s.created, s.id))[:limit]
            fresh = {}
        return [fresh.get(summary.id, summary) for summary in found]

    def _refresh(self) -> dict[str, RunSummary]:
        folders = set(self._folders())
        indexed = self.index.ids()
        gone = indexed - folders
        if gone:
            self.index.remove(gone)
        stale = (folders - indexed) | (set(self.index.living()) & folders)
        fresh = {summary.id: summary for summary in self._read(sorted(stale))}
        if fresh:
            self.index.put(fresh.values())
        return fresh

    def _folders(self) -> Sequence[str]:
        try:
            return [name for name in os.listdir(self.paths.runs) if not name.startswith(".")]
        except FileNotFoundError:
            return []

    def _read(self, run_ids: Iterable[str]) -> Sequence[RunSummary]:
        summaries = []
        for run_id in run_ids:
            # A folder that is no run, or was removed meanwhile, doesn't hide the others.
            with contextlib.suppress(StoreError, OSError, ValueError):
                summaries.append(self.summarise(run_id))
        return summaries

    def note(self, run_id: str) -> None:
        """Bring the index up to date for one run; a failing index is left to the next rebuild."""
        with contextlib.suppress(sqlite3.Error, OSError):
            self.index.put([self.summarise(run_id)])

    def remove(self, run_id: str) -> None:
        """Delete a run and all its files. Raises StoreError when it is still alive."""
        paths = self.find(run_id)
        if is_locked(paths.owner_lock):
            raise StoreError(f"run {run_id} is still alive; `%jtrain stop {run_id}` ends it")
        doomed = self.paths.runs / f"{_ASIDE}removed-{check_run_id(run_id)}-{os.urandom(3).hex()}"
        os.rename(paths.root, doomed)
        shutil.rmtree(doomed)
        with contextlib.suppress(sqlite3.Error, OSError):
            self.index.remove([run_id])


def is_interrupted(paths: RunPaths, state: State, since: float) -> bool:
    """Whether a run that should be alive has no supervisor any more (it died, or the machine did)."""
    if state not in ALIVE:
        return False
    grace_s = _STARTING_GRACE_S
    with contextlib.suppress(FileNotFoundError):
        # Before the lock is looked at, and counted from the file's making: a supervisor that comes just now makes the
        # file, locks it an instant later, and may have taken seconds to come.
        since = max(since, paths.owner_lock.stat().st_mtime)
        grace_s = _OWNED_GRACE_S
    return not is_locked(paths.owner_lock) and time.time() - since > grace_s
