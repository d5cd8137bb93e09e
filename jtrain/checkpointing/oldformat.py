"""Reads checkpoints of format 1: one file of what all ranks share and one for each rank, both written by torch.save."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from jtrain.errors import CheckpointError

SHARED = "shared.pt"


def files_of(ranks: Iterable[int]) -> list[str]:
    """The files of what all ranks share and of `ranks`."""
    return [SHARED, *(own_file(rank) for rank in ranks)]


def own_file(rank: int) -> str:
    """The file of one rank."""
    return f"rank-{rank}.pt"


def read_shared(folder: Path) -> dict[str, Any]:
    """What all ranks share."""
    return load_pickled(folder / SHARED)


def read_own(folder: Path, rank: int) -> dict[str, Any]:
    """What belonged to `rank`."""
    return load_pickled(folder / own_file(rank))


def load_pickled(path: Path) -> dict[str, Any]:
    """Raises CheckpointError for an object whose class the cell doesn't have."""
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=False)
    except (AttributeError, ImportError, pickle.UnpicklingError) as error:
        raise CheckpointError(
            f"{path.parent.name} holds an object whose class the cell doesn't have ({error}); define it before the loop"
        ) from error
    return content
