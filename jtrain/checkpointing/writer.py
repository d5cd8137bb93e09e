"""Writes one rank's part of a checkpoint in a thread, and on rank 0 makes all parts a checkpoint.

The ranks tell each other through cells of the rank table, so that no collective operation of this thread gets in
between those of the training. Every checkpoint is written to a folder of its own, whose name begins with `.partial-`:
until that is renamed there is no checkpoint.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jtrain.checkpointing.partfiles import write_part
from jtrain.checkpointing.staging import Staged
from jtrain.domain.checkpoints import MANIFEST, FileEntry, Manifest
from jtrain.store.files import sync_folder, write_atomic
from jtrain.store.ranks import RankRow, RankTable

PARTIAL = ".partial-"
_PAUSE_S = 0.005
"""Between two looks whether the other ranks have written."""
_LATE_S = 30.0
_ALL_MUST = "all ranks have to call run.checkpoint()"
_SPARE_BYTES = 8 << 20
"""What is to be left on the disk: metrics and logs of the run go there too."""


@dataclass(frozen=True)
class Job:
    """One checkpoint: its `number` in this attempt, alike on all ranks; where it is written, and what it becomes."""

    number: int
    aside: Path
    folder: Path
    manifest: Manifest
    """Without its files."""


class Writer:
    """At most one job at a time. `on_published` is called on rank 0, in the thread, when a checkpoint is complete;
    `on_problem` with a sentence about one that could not be written, where it failed, unless somebody waits for it."""

    def __init__(
        self, table: RankTable, rank: int, *, on_published: Callable[[], None], on_problem: Callable[[str], None]
    ) -> None:
        self._table = table
        self._rank = rank
        self._row = table.row(rank)
        self._first = table.row(0)
        self._on_published = on_published
        self._on_problem = on_problem
        self._thread: threading.Thread | None = None
        self.number = 0
        """Of the last job, here and (once it has begun there) on the other ranks."""
        self.problem = ""
        """Why this rank's last job failed."""

    @property
    def is_idle(self) -> bool:
        """Whether the last job is over, on all ranks."""
        return abs(self._first.published) >= self.number

    def start(self, job: Job, staged: Staged | None, problem: str, *, is_waited_for: bool) -> None:
        """Write `staged` in the background; without one, tell the others that this rank has none, because of
        `problem`."""
        if self._thread is not None:
            self._thread.join()
        self.number, self.problem = job.number, ""
        self._row.begun = job.number
        self._thread = threading.Thread(
            target=self._run, args=(job, staged, problem, is_waited_for), name="jtrain-checkpoint", daemon=True
        )
        self._thread.start()

    def wait(self) -> bool:
        """Wait until the last job is over on all ranks; whether it became a checkpoint."""
        while not self.is_idle:
            time.sleep(_PAUSE_S)
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        return self._first.published == self.number

    def _run(self, job: Job, staged: Staged | None, problem: str, is_waited_for: bool) -> None:
        is_written = is_published = False
        try:
            if staged is not None:
                problem = self._write(job, staged)
            is_written = not problem
            if self._rank == 0:
                problem = self._wait_for_parts(job.number, is_written) or problem
                if not problem:
                    problem = _attempt(lambda: self._publish(job))
                is_published = not problem
                if not is_published:
                    shutil.rmtree(job.aside, ignore_errors=True)
        except BaseException as error:
            problem = f"{type(error).__name__}: {error}"
            raise
        finally:
            self.problem = problem
            if problem and not is_waited_for:
                self._on_problem(f"the checkpoint could not be written: {problem} ({job.folder.parent})")
            if self._rank == 0:
                self._row.published = job.number if is_published else -job.number
            elif self._row.written != job.number:
                self._row.written = -job.number

    def _write(self, job: Job, staged: Staged) -> str:
        def write() -> None:
            job.aside.mkdir(parents=True, exist_ok=True)
            needed, free = staged.size_bytes + _SPARE_BYTES, shutil.disk_usage(job.aside).free
            if needed > free:
                raise OSError(0, f"it needs {needed >> 20} MiB and the disk has {free >> 20} MiB free")
            entries = write_part(job.aside, self._rank, staged)
            described = {name: entry.model_dump() for name, entry in entries.items()}
            _entries_file(job.aside, self._rank).write_text(json.dumps(described))

        problem = _attempt(write)
        if not problem:
            self._row.written = job.number
        return problem

    def _wait_for_parts(self, number: int, is_fine: bool) -> str:
        """Which other rank failed, or nothing."""
        self._row.written = number if is_fine else -number
        rows = [self._table.row(rank) for rank in range(self._table.world_size)]
        tell_at = time.monotonic() + _LATE_S
        while any(abs(row.written) < number and not row.done for row in rows):
            time.sleep(_PAUSE_S)
            if time.monotonic() > tell_at:
                tell_at = float("inf")
                if late := _late(number, rows):
                    self._on_problem(f"a checkpoint waits for rank {late}, which has not come to it: {_ALL_MUST}")
        if late := _late(number, rows):
            return f"rank {late} never came to it: {_ALL_MUST}"
        failed = [str(rank) for rank, row in enumerate(rows) if rank and row.written != number]
        return f"rank {', '.join(failed)} could not write its part, its log says why" if failed else ""

    def _publish(self, job: Job) -> None:
        files: dict[str, FileEntry] = {}
        for rank in range(self._table.world_size):
            described = _entries_file(job.aside, rank)
            files |= {name: FileEntry(**entry) for name, entry in json.loads(described.read_bytes()).items()}
            described.unlink()
        manifest = job.manifest.model_copy(update={"files": files})
        write_atomic(job.aside / MANIFEST, manifest.model_dump_json(indent=1))
        sync_folder(job.aside)
        os.rename(job.aside, job.folder)
        sync_folder(job.folder.parent)
        self._on_published()


def _late(number: int, rows: list[RankRow]) -> str:
    """The ranks that haven't taken checkpoint `number`."""
    return ", ".join(str(rank) for rank, row in enumerate(rows) if row.begun < number)


def _entries_file(folder: Path, rank: int) -> Path:
    """Where a rank says what it has written, for rank 0."""
    return folder / f"rank-{rank}.json"


def _attempt(action: Callable[[], None]) -> str:
    """Why `action` failed, or nothing."""
    try:
        action()
    except OSError as error:
        return f"{error.strerror or error}"
    return ""
