"""Reads tensors that are spread over ranks: torch.distributed.checkpoint plans which slices this rank needs of those
that other ranks wrote, and gets the bytes from here. Imported only where there are such tensors (spread.py)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from jtrain.checkpointing.reading import Tensors
from jtrain.errors import CheckpointError


def fill_slices(targets: dict[str, Any], stored: Tensors) -> None:
    """Read what this rank has of `targets`, tensors by name, whole or spread."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")  # this rank reads for itself
        dcp.load(targets, storage_reader=_Slices(stored, targets), no_dist=True)


class _Slices(StorageReader):
    """Gives torch.distributed.checkpoint the bytes of `Tensors`."""

    def __init__(self, tensors: Tensors, names: Iterable[str]) -> None:
        self._tensors = tensors
        self._names = list(names)
        self._parts: dict[tuple[str, tuple[int, ...]], torch.Tensor] = {}

    def reset(self, checkpoint_id: Any = None) -> None:
        """Nothing is kept from one reading to the next."""

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        described: dict[str, Any] = {}
        for name in self._names:
            parts = self._tensors.parts_of(name)
            self._parts.update({(name, offsets): tensor for tensor, offsets in parts})
            described[name] = TensorStorageMetadata(
                properties=TensorProperties(dtype=parts[0][0].dtype),
                size=torch.Size(self._tensors.shapes.get(name, parts[0][0].shape)),
                chunks=[ChunkStorageMetadata(torch.Size(offsets), tensor.shape) for tensor, offsets in parts],
            )
        return Metadata(described)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *_: Any, **__: Any) -> None:
        """The files are open."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        for item in plan.items:
            if item.type is LoadItemType.BYTE_IO:
                raise CheckpointError(f"{item.dest_index.fqn} is stored as bytes")
            offset = item.storage_index.offset or torch.Size()
            source = self._parts[item.storage_index.fqn, tuple(offset)]
            for dim, (begin, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
                source = source.narrow(dim, begin, length)
            target = planner.resolve_tensor(item).detach()
            target.copy_(source)
            planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True
