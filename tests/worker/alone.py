"""Checkpoints without a run: one rank, with the table that it would share with others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jtrain.checkpointing.checkpointer import Checkpointer, Group
from jtrain.checkpointing.retention import Retention
from jtrain.domain.checkpoints import Position
from jtrain.store.paths import RunPaths
from jtrain.store.ranks import RankTable


class Alone:
    """The only rank."""

    rank, size = 0, 1

    def all_agree(self, is_fine: bool) -> bool:
        return is_fine


class Other(Alone):
    """One of two, which always agree."""

    size = 2


def alone(paths: RunPaths, keep: int = 3, *, group: Group | None = None, **options: Any) -> Checkpointer:
    """The checkpointer of a run that has one rank."""
    table = RankTable.create(paths.root / "ranks", 1)
    retention = options.pop("retention", Retention(keep))
    return Checkpointer(paths, group or Alone(), table, retention, **options)


def write(
    checkpointer: Checkpointer,
    step: int,
    shared: Mapping[str, Any] | None = None,
    own: Mapping[str, Any] | None = None,
    **metrics: float,
) -> str:
    """Take a checkpoint and wait for it."""
    name = checkpointer.begin(Position(step=step), shared or {}, own or {}, metrics, is_waited_for=True)
    checkpointer.wait()
    return name
