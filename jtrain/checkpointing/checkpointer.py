"""The checkpoints of one run, as one of its ranks sees them: taken, written behind the training's back, read again."""

from __future__ import annotations

import pickle
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

import torch

import jtrain
from jtrain.checkpointing import oldformat
from jtrain.checkpointing.buffer import Buffer
from jtrain.checkpointing.reading import Tensors, find_problem, read_manifest, read_rest
from jtrain.checkpointing.retention import Retention, superfluous
from jtrain.checkpointing.staging import Parts, Staged, stage
from jtrain.checkpointing.writer import PARTIAL, Job, Writer
from jtrain.domain.checkpoints import Manifest, Position
from jtrain.errors import CheckpointError
from jtrain.store.checkpoints import list_checkpoints
from jtrain.store.paths import RunPaths
from jtrain.store.ranks import RankTable

Fill = Callable[[Any, Mapping[str, torch.Tensor]], Any]
"""Puts tensors into a tree that has Slots; takes templates of those that are to be spread over ranks, by name."""


class Group(Protocol):
    """The ranks together."""

    rank: int
    size: int

    def all_agree(self, is_fine: bool) -> bool:
        """Whether every rank says that it is fine; waits for all of them."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint's content, written by `writers` ranks. `shared`, the same for all, still has Slots, which `fill`
    fills; `owns` is what belonged to each of them, or when they are as many as now only what belongs to this one."""

    position: Position
    writers: int
    shared: dict[str, Any]
    owns: list[dict[str, Any]]
    fill: Fill
    torch_version: str = ""


class Checkpointer:
    """`begin`, `wait` and `load` are called by all ranks together."""

    def __init__(
        self,
        paths: RunPaths,
        group: Group,
        table: RankTable,
        retention: Retention,
        *,
        attempt: int = 1,
        spec: str = "",
        keeps_memory: bool = False,
        on_problem: Callable[[str], None] = print,
    ) -> None:
        self.paths = paths
        self._group = group
        self._retention = retention
        self._attempt = attempt
        self._spec = spec
        self._on_problem = on_problem
        self._keeps_memory = keeps_memory
        """Whether the buffer stays between two checkpoints: when they come regularly."""
        self._buffer = Buffer()
        self._warming: threading.Thread | None = None
        self._is_first = True
        self._writer = Writer(table, group.rank, on_published=self._retain, on_problem=on_problem)

    # Writing ---------------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether no checkpoint is being written any more, by any rank."""
        return self._writer.is_idle

    @property
    def number(self) -> int:
        """How many checkpoints were begun."""
        return self._writer.number

    def warm(self, shared: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        """Get the memory for the first checkpoint, in the background; called once at most, before it."""
        _, parts = self._split(shared, own)
        arguments = {"size_bytes": parts.size_bytes, "is_pinned": parts.is_on_gpu}
        self._warming = threading.Thread(target=self._buffer.warm, kwargs=arguments, name="jtrain-warm", daemon=True)
        self._warming.start()

    def begin(
        self,
        position: Position,
        shared: Mapping[str, Any],
        own: Mapping[str, Any],
        metrics: Mapping[str, float] | None = None,
        *,
        is_waited_for: bool = False,
    ) -> str:
        """Copy the state and have it written; returns the name that the checkpoint will have.

        The one before must be over. Of `shared`, which is the same on all ranks, rank 0 writes what isn't spread over
        them. `metrics`: their latest values, by which the best checkpoints are found. `is_waited_for`: a problem is
        not told to `on_problem`, since `wait` will raise it.
        """
        self._prepare()
        job = self._job(position, metrics or {})
        staged, problem = self._stage(shared, own)
        self._writer.start(job, staged, problem, is_waited_for=is_waited_for)
        return job.folder.name

    def drain(self) -> bool:
        """Wait until the checkpoint that was begun last is over; whether it is complete."""
        is_good = self._writer.wait()
        if not self._keeps_memory:
            self._buffer.release()
        return is_good

    def wait(self) -> None:
        """As `drain`, but raises CheckpointError on all ranks when it could not be written; those that there were
        before are untouched."""
        if not self.drain():
            problem = self._writer.problem
            where = f" ({self.paths.checkpoints})" if problem else ""
            raise CheckpointError(
                f"the checkpoint could not be written: {problem or 'another rank could not write'}{where}"
            )

    def _prepare(self) -> None:
        if self._warming is not None:
            self._warming.join()
            self._warming = None
        if self._is_first and self._group.rank == 0:
            for left in self.paths.checkpoints.glob(f"{PARTIAL}*"):
                if not left.name.startswith(self._partial("")):  # another rank may have begun on this one already
                    shutil.rmtree(left, ignore_errors=True)
        self._is_first = False

    def _partial(self, name: str) -> str:
        return f"{PARTIAL}{self._attempt}-{name}"

    def _job(self, position: Position, metrics: Mapping[str, float]) -> Job:
        number = self._writer.number + 1
        name = self._free_name(position.name)
        manifest = Manifest(
            run_id=self.paths.id,
            step=position.step,
            time=time.time(),
            world_size=self._group.size,
            position=position.model_copy(deep=True),  # it is written down later, when the loops are further on
            files={},
            metrics={name: value for name, value in metrics.items() if isfinite(value)},
            versions={"jtrain": jtrain.__version__, "torch": torch.__version__},
            spec=self._spec,
        )
        checkpoints = self.paths.checkpoints
        return Job(number, checkpoints / self._partial(f"{number}-{name}"), checkpoints / name, manifest)

    def _free_name(self, wanted: str) -> str:
        """`wanted`, or with a number when a checkpoint of that step is there: that one stays whole until this one is.

        The same on all ranks: none is renamed to its name before all ranks have written their parts.
        """
        name, number = wanted, 1
        while (self.paths.checkpoints / name).exists():
            number += 1
            name = f"{wanted}-{number}"
        return name

    def _split(self, shared: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[dict[str, Any], Parts]:
        """The state's tree without its tensors, and these."""
        parts, spread = Parts(), Parts()
        if self._group.rank == 0:
            tree = {"shared": parts.split(dict(shared), "shared")}
        else:
            tree = {}
            spread.split(dict(shared), "shared")
        parts.is_loose = False
        tree["own"] = parts.split(dict(own), "own")
        parts.entries += [entry for entry in spread.entries if entry.slice is not None]
        return tree, parts

    def _stage(self, shared: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[Staged | None, str]:
        """A copy of the state, or why there is none: the other ranks wait to hear it, so nothing may be raised."""
        try:
            tree, parts = self._split(shared, own)
            return stage(tree, parts, self._buffer), ""
        except MemoryError:
            return None, "there is no memory for a copy of the state"
        except Exception as error:  # noqa: BLE001 - a user's object may raise anything while it is pickled
            return None, _name_of_unsavable(own, error)

    def _retain(self) -> None:
        """Remove what isn't kept any more, now that a newer good one is there."""
        found = list_checkpoints(self.paths)
        for name in superfluous(found, self._retention):
            # Renamed first: half a checkpoint must not be found under a checkpoint's name.
            going = self.paths.checkpoints / f"{PARTIAL}old-{name}"
            try:
                (self.paths.checkpoints / name).rename(going)
                shutil.rmtree(going)
            except OSError as error:
                self._on_problem(f"the old checkpoint {name} could not be removed: {error}")

    # Reading ---------------------------------------------------------------------------------------------------

    def load(self, name: str) -> tuple[Saved, str, list[str]]:
        """The checkpoint `name`, or the newest good one if that is damaged; its name, and what was wrong with others.

        Raises CheckpointError when none is good.
        """
        wanted = self.paths.checkpoints / name
        folders = [info.folder for info in reversed(list_checkpoints(self.paths))]
        problems: list[str] = []
        for folder in (wanted, *(folder for folder in folders if folder != wanted)):
            problem = find_problem(folder, rank=self._group.rank, size=self._group.size)
            if self._group.all_agree(problem is None):
                return self._read(folder), folder.name, problems
            problem = problem or find_problem(folder)
            problems.append(problem or f"{folder.name}: another rank can't read it")
        raise CheckpointError(
            f"run {self.paths.id} has no checkpoint that can be used: {'; '.join(problems)}. "
            f"Put one back in {self.paths.checkpoints}, or start afresh without --resume"
        )

    def _read(self, folder: Path) -> Saved:
        manifest = read_manifest(folder)
        position = manifest.position
        position.ranks = position.ranks or manifest.world_size
        writers, version = range(manifest.world_size), manifest.versions.get("torch", "")
        ranks = [self._group.rank] if manifest.world_size == self._group.size else list(writers)
        if manifest.format == 1:
            owns = [oldformat.read_own(folder, rank) for rank in ranks]
            shared_then = oldformat.read_shared(folder)
            return Saved(position, manifest.world_size, shared_then, owns, lambda tree, _: tree, version)
        owns = []
        for rank in ranks:
            own = Tensors.open(folder, whole_of=[rank], slices_of=writers)
            owns.append(own.fill(read_rest(folder, rank)["own"]))
        shared = Tensors.open(folder, whole_of=[0], slices_of=writers)
        return Saved(position, manifest.world_size, read_rest(folder, 0)["shared"], owns, shared.fill, version)


def _name_of_unsavable(own: Mapping[str, Any], error: Exception) -> str:
    for name, value in own.get("registered", {}).items():
        try:
            pickle.dumps(value)
        except Exception as problem:  # noqa: BLE001 - as above
            return f"what is registered as {name!r} can't be saved ({type(problem).__name__}: {problem})"
    return f"some state can't be saved ({type(error).__name__}: {error})"
