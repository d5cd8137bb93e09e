"""Writes and reads checkpoints: files aside, synced, verified by a manifest, renamed.

A later version may write in the background; callers only know `save`, `load` and the names.
"""

from __future__ import annotations

import os
import pickle
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

import jtrain
from jtrain.domain.checkpoints import FORMAT_VERSION, MANIFEST, SHARED, FileEntry, Manifest, Position
from jtrain.errors import CheckpointError
from jtrain.store.checkpoints import list_checkpoints
from jtrain.store.digests import digest_of
from jtrain.store.files import sync_folder, write_atomic
from jtrain.store.paths import RunPaths
from jtrain.worker.elastic import spread_own


class Group(Protocol):
    """The ranks together."""

    rank: int
    size: int

    def all_agree(self, is_fine: bool) -> bool:
        """Whether every rank says that it is fine; waits for all of them."""


@dataclass(frozen=True)
class Loaded:
    """A checkpoint's content: what all ranks share, and this rank's own."""

    position: Position
    shared: dict[str, Any]
    own: dict[str, Any]


class Checkpointer:
    """The checkpoints of one run, as one of its ranks sees them. `save` and `load` are called by all ranks together."""

    def __init__(self, paths: RunPaths, group: Group, keep: int) -> None:
        self.paths = paths
        self._group = group
        self._keep = keep

    def save(self, position: Position, shared: Mapping[str, Any] | None, own: Mapping[str, Any]) -> str:
        """Write a checkpoint and return its name. `shared` is only looked at on rank 0.

        Raises CheckpointError on all ranks when any of them could not write; the checkpoints there were are untouched.
        """
        name = self._free_name(position.name)
        aside = self.paths.checkpoints / f".partial-{name}"
        problem = self._attempt(lambda: self._open(aside))
        self._agree(problem, aside)
        problem = self._attempt(lambda: self._write_own(aside, shared, own))
        self._agree(problem, aside)
        problem = self._attempt(lambda: self._publish(aside, name, position))
        self._agree(problem, aside)
        return name

    def _free_name(self, wanted: str) -> str:
        """`wanted`, or with a number when a checkpoint of that step is there: that one stays whole until this one is.

        The same on all ranks: none is renamed to its name before all ranks have agreed on it.
        """
        name, number = wanted, 1
        while (self.paths.checkpoints / name).exists():
            number += 1
            name = f"{wanted}-{number}"
        return name

    def _attempt(self, action: Callable[[], None]) -> str | None:
        """Why `action` failed, or None: the other ranks wait to hear it, so nothing may be raised."""
        try:
            action()
        except OSError as error:
            return f"{error.strerror or error} ({self.paths.checkpoints})"
        except _NotSavable as error:
            return str(error)
        except RuntimeError as error:  # torch's writer wraps the system's error in one of its own
            cause = _system_error(error)
            return f"{cause.strerror if cause else str(error).splitlines()[0]} ({self.paths.checkpoints})"
        return None

    def _agree(self, problem: str | None, aside: Path) -> None:
        if self._group.all_agree(problem is None):
            return
        if self._group.rank == 0:
            shutil.rmtree(aside, ignore_errors=True)
        raise CheckpointError(f"the checkpoint could not be written: {problem or 'another rank could not write'}")

    def _open(self, aside: Path) -> None:
        if self._group.rank == 0:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)

    def _write_own(self, aside: Path, shared: Mapping[str, Any] | None, own: Mapping[str, Any]) -> None:
        _save(dict(own), aside / _own_file(self._group.rank))
        if self._group.rank == 0:
            _save(dict(shared or {}), aside / SHARED)

    def _publish(self, aside: Path, name: str, position: Position) -> None:
        if self._group.rank != 0:
            return
        manifest = Manifest(
            run_id=self.paths.id,
            step=position.step,
            time=time.time(),
            world_size=self._group.size,
            position=position,
            files={path.name: _entry(path) for path in sorted(aside.iterdir())},
            versions={"jtrain": jtrain.__version__, "torch": torch.__version__},
        )
        write_atomic(aside / MANIFEST, manifest.model_dump_json(indent=1))
        os.rename(aside, self.paths.checkpoints / name)
        sync_folder(self.paths.checkpoints)
        self._retain(name)

    def _retain(self, newest: str) -> None:
        """Remove what is older than the newest `keep`, now that a newer good one is there; pinned ones stay besides."""
        infos = reversed(list_checkpoints(self.paths))
        others = [info.folder for info in infos if info.name != newest and not info.is_pinned]
        for folder in others[self._keep - 1 :]:
            shutil.rmtree(folder, ignore_errors=True)

    def _newest_first(self) -> list[Path]:
        return [info.folder for info in reversed(list_checkpoints(self.paths))]

    def load(self, name: str) -> tuple[Loaded, str, list[str]]:
        """The checkpoint `name`, or the newest good one if that is damaged; its name, and what was wrong with others.

        One that another number of ranks wrote is spread over these (elastic.py). Raises CheckpointError when none is
        good.
        """
        folders = self._newest_first()
        wanted = self.paths.checkpoints / name
        candidates = [wanted, *(folder for folder in folders if folder != wanted)]
        problems: list[str] = []
        for folder in candidates:
            problem = self._find_problem(folder, [self._group.rank])
            if self._group.all_agree(problem is None):
                return self._read(folder), folder.name, problems
            problem = problem or self._find_problem(folder, range(self._group.size))
            problems.append(problem or f"{folder.name}: another rank can't read it")
        raise CheckpointError(
            f"run {self.paths.id} has no checkpoint that can be used: {'; '.join(problems)}. "
            f"Put one back in {self.paths.checkpoints}, or start afresh without --resume"
        )

    def _find_problem(self, folder: Path, ranks: Iterable[int]) -> str | None:
        """What is wrong with a checkpoint, as far as all ranks' and these ranks' files go."""
        try:
            manifest = Manifest.model_validate_json((folder / MANIFEST).read_bytes())
        except (OSError, ValueError) as error:
            return f"{folder.name}: its manifest is missing or damaged ({type(error).__name__})"
        if manifest.format > FORMAT_VERSION:
            return f"{folder.name}: it was written by a newer jtrain (format {manifest.format})"
        if manifest.world_size != self._group.size:
            ranks = range(manifest.world_size)  # whose parts are spread over the ranks there are
        for file in (SHARED, *map(_own_file, ranks)):
            entry = manifest.files.get(file)
            path = folder / file
            if entry is None or not path.exists() or path.stat().st_size != entry.size_bytes:
                return f"{folder.name}: {file} is missing or has another size"
            if digest_of(path) != entry.digest:
                return f"{folder.name}: {file} has been changed (its checksum differs)"
        return None

    def _read(self, folder: Path) -> Loaded:
        manifest = Manifest.model_validate_json((folder / MANIFEST).read_bytes())
        position = manifest.position
        position.ranks = position.ranks or manifest.world_size
        if manifest.world_size == self._group.size:
            own = _load(folder / _own_file(self._group.rank))
        else:
            owns = [_load(folder / _own_file(rank)) for rank in range(manifest.world_size)]
            own = spread_own(owns, self._group.rank, position)
        return Loaded(position, _load(folder / SHARED), own)


def _own_file(rank: int) -> str:
    return f"rank-{rank}.pt"


def _system_error(error: BaseException) -> OSError | None:
    """The system's error that led to this one."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__context__
    return cause


class _NotSavable(Exception):
    """Some state can't be pickled; the text names it."""


def _save(content: dict[str, Any], path: Path) -> None:
    with open(path, "wb") as file:
        try:
            torch.save(content, file)
        except (OSError, RuntimeError):
            raise
        except Exception as error:  # a user's object may raise anything while it is pickled
            raise _NotSavable(_name_of_unsavable(content, error)) from error
        file.flush()
        os.fsync(file.fileno())


def _name_of_unsavable(content: Mapping[str, Any], error: Exception) -> str:
    for name, value in content.get("registered", {}).items():
        try:
            pickle.dumps(value)
        except Exception as problem:  # noqa: BLE001 - as above
            return f"what is registered as {name!r} can't be saved ({type(problem).__name__}: {problem})"
    return f"some state can't be saved ({type(error).__name__}: {error})"


def _load(path: Path) -> dict[str, Any]:
    """The file's content. It is this user's own, its checksum was right, and it may hold anything: registered objects,
    numpy numbers in an optimizer's settings."""
    try:
        return torch.load(path, map_location="cpu", weights_only=False)
    except (AttributeError, ImportError, pickle.UnpicklingError) as error:
        raise CheckpointError(
            f"{path.parent.name} holds an object whose class the cell doesn't have ({error}); define it before the loop"
        ) from error


def _entry(path: Path) -> FileEntry:
    return FileEntry(size_bytes=path.stat().st_size, digest=digest_of(path))
