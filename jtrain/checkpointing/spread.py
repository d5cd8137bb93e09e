"""Tensors that are spread over ranks (DTensor). torch takes half a second to import them, which runs without any don't
have: so what they need is imported when there is one, and where nobody has imported their module there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch


def is_spread(value: object) -> bool:
    """Whether `value` is a DTensor."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def is_sharded_module(value: object) -> bool:
    """Whether `fully_shard` (FSDP2) has spread the parameters of the module `value`."""
    module = sys.modules.get("torch.distributed.fsdp")
    return module is not None and isinstance(value, module.FSDPModule)


def spread_like(value: torch.Tensor, like: Any) -> torch.Tensor:
    """A whole tensor, the same on all ranks, spread as the DTensor `like` is."""
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def local_slices(name: str, tensor: Any) -> Iterator[tuple[torch.Tensor, tuple[int, ...], tuple[int, ...]]]:
    """This rank's parts of the DTensor `tensor`, with their offsets in the whole and its shape; none when another rank
    has the same ones and writes them. Which they are is said by the planner of torch.distributed.checkpoint."""
    from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

    mesh, coordinate = tensor.device_mesh, tensor.device_mesh.get_coordinate()
    if coordinate is None or any(
        placement.is_replicate() and place for placement, place in zip(tensor.placements, coordinate, strict=True)
    ):
        return
    planner = DefaultSavePlanner()
    planner.set_up_planner({name: tensor}, is_coordinator=mesh.get_rank() == 0)
    for item in planner.create_local_plan().items:
        if item.tensor_data is not None:
            chunk = item.tensor_data.chunk
            yield planner.resolve_data(item).detach(), tuple(chunk.offsets), tuple(item.tensor_data.size)
