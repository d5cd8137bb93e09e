"""Training on with another number of ranks: the same optimizer steps, made of the same samples, spread differently.

A run keeps the layout that it began with: `ranks` batches side by side are a row, `accumulation` rows an optimizer
step, and an accumulation ends with its epoch. On another number of ranks the batches of a step are dealt out anew, cut
into slices where there are too few of them. A slice's loss is divided so that all of its samples weigh what they
weighed in their batch; so the gradient of a step is the same sum, added up in another order.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from math import gcd, inf
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.data_loader import BatchSamplerShard
from accelerate.scheduler import AcceleratedScheduler

from jtrain.domain.checkpoints import Position
from jtrain.worker.randomness import generator_state, mix, seeded

_RANK = 1
"""What the generators of a rank that there wasn't before are derived from, besides the step."""
_SMALLEST_CUT = 4
"""Slices with fewer samples are not halved to give every rank one: batch norm can't train on a single sample."""


@dataclass(frozen=True)
class Layout:
    """How an optimizer step is laid out: batches side by side, and rows of them."""

    ranks: int
    accumulation: int


@dataclass(frozen=True)
class Piece:
    """What one rank gets at once.

    `divisor`: of the loss, before the gradients' mean over the ranks. `number` and `slice` say which batch it is of:
    its row, and which part of it. `is_last`: whether the optimizer step follows; `rows` of the epoch are done after it,
    and the step has `step_rows`.
    """

    indices: list[int]
    divisor: float
    number: int
    slice: int
    is_last: bool
    rows: int
    step_rows: int


@dataclass(frozen=True)
class _Slice:
    indices: list[int]
    share: float
    """Which part of its batch's samples it has; 0 for one that only keeps a rank busy."""
    number: int
    slice: int


class Spread:
    """Steps of `layout` on `size` ranks: each batch cut into `cuts` slices, `accumulation` of them on each rank."""

    def __init__(self, layout: Layout, size: int) -> None:
        self.layout = layout
        self.size = size
        batches = layout.ranks * layout.accumulation
        self.cuts = size // gcd(size, batches)
        self.accumulation = batches * self.cuts // size

    @property
    def sentence(self) -> str:
        """What was done, for people."""
        ranks = f"{self.size} rank{'s' if self.size > 1 else ''} instead of {self.layout.ranks}"
        amount = f"{self.accumulation} times 1/{self.cuts} batch"
        if self.cuts == 1:
            amount = f"{self.accumulation} batch{'es' if self.accumulation > 1 else ''}"
        return f"{ranks}: an optimizer step is still made of the same samples, now of {amount} on each rank"

    def pieces(self, rows: Iterable[Sequence[list[int]]], start: int, rank: int) -> Iterator[Piece]:
        """What `rank` gets of an epoch of `rows`, from row `start` on."""
        step: list[Sequence[list[int]]] = []
        for number, row in enumerate(rows):
            if number < start:
                continue
            step.append(row)
            if (number + 1) % self.layout.accumulation == 0:
                yield from self._deal(step, number + 1, rank)
                step = []
        if step:
            yield from self._deal(step, number + 1, rank)

    def _deal(self, step: Sequence[Sequence[list[int]]], end: int, rank: int) -> Iterator[Piece]:
        """The pieces of `rank` in the optimizer step that ends with row `end`."""
        first = end - len(step)
        batches = self.layout.ranks * self.layout.accumulation
        slices = [
            cut for number, row in enumerate(step, first) for batch in row for cut in _cut(batch, number, self.cuts)
        ]
        hands = [slices[at : at + self.size] for at in range(0, len(slices), self.size)]
        hands[-1] = _fill(hands[-1], self.size)
        for at, hand in enumerate(hands, 1):
            mine = hand[rank]
            is_last = at == len(hands)
            yield Piece(
                mine.indices,
                batches / (mine.share * self.size) if mine.share else inf,
                mine.number,
                mine.slice,
                is_last,
                end if is_last else first + at * self.size // (self.cuts * self.layout.ranks),
                len(step),
            )

    def stream(self, start: int) -> Iterator[Piece]:
        """The same for a loader that deals its batches out by itself, in the order of the samples."""
        done = start * self.layout.ranks // self.size
        while True:
            done += 1
            rows = done * self.size // self.layout.ranks
            is_last = done % self.accumulation == 0
            yield Piece([], self.accumulation, 0, 0, is_last, rows, self.layout.accumulation)


def _cut(batch: list[int], number: int, cuts: int) -> list[_Slice]:
    """`batch` in `cuts` slices that differ by one sample at most; fewer when it has fewer samples."""
    cuts = min(cuts, len(batch))
    bounds = [at * len(batch) // cuts for at in range(cuts + 1)]
    return [
        _Slice(batch[begin:end], (end - begin) / len(batch), number, at)
        for at, (begin, end) in enumerate(pairwise(bounds))
    ]


def _fill(slices: list[_Slice], size: int) -> list[_Slice]:
    """As many slices as ranks, with the same samples: the largest are halved; who then has none repeats one in vain."""
    slices = list(slices)
    while len(slices) < size:
        at = max(range(len(slices)), key=lambda index: len(slices[index].indices))
        largest = slices[at]
        count = len(largest.indices)
        if count < _SMALLEST_CUT:
            break
        half = count // 2
        slices[at : at + 1] = [
            _Slice(largest.indices[:half], largest.share * half / count, largest.number, largest.slice),
            _Slice(largest.indices[half:], largest.share * (count - half) / count, largest.number, -largest.slice - 1),
        ]
    idle = slices[-1]
    return slices + [_Slice(idle.indices, 0.0, idle.number, idle.slice)] * (size - len(slices))


class _Batches(list[list[int]]):
    """Some batches, as a batch sampler."""

    def __init__(self, batches: Iterable[list[int]], like: Any) -> None:
        super().__init__(batches)
        self.batch_size = getattr(like, "batch_size", None)
        self.drop_last = getattr(like, "drop_last", False)

    def __iter__(self) -> Iterator[list[int]]:
        return map(list, super().__iter__())  # copies: Accelerate's shards change them


def rows(shard: BatchSamplerShard, ranks: int) -> Iterator[list[list[int]]]:
    """An epoch as `ranks` ranks would get it: at each step the batch of every rank. Only Accelerate knows how it fills
    up the end of an epoch, so its own shards deal out the batches of which that is made: the first and the last."""
    side_by_side = 1 if shard.split_batches else ranks
    first: list[list[int]] = []
    row: list[list[int]] = []
    for batch in shard.batch_sampler:
        if len(first) < side_by_side:
            first.append(batch)
        row.append(batch)
        if len(row) == side_by_side and shard.batch_size in (None, len(batch)):
            yield _parts(batch, ranks) if shard.split_batches else row
            row = []
    if row:
        is_all = len(first) < side_by_side or row == first
        batches = _Batches(row if is_all else first + row, shard.batch_sampler)
        dealt = zip_longest(*(iter(shard_for(shard, batches, ranks, rank)) for rank in range(ranks)))
        for number, full in enumerate(dealt):
            if is_all or number:
                yield [batch for batch in full if batch is not None]


def _parts(batch: list[int], ranks: int) -> list[list[int]]:
    length = len(batch) // ranks
    return [batch[at * length : (at + 1) * length] for at in range(ranks)]


def shard_for(shard: BatchSamplerShard, batches: Any, ranks: int, rank: int) -> BatchSamplerShard:
    """What rank `rank` of `ranks` gets of `batches`, dealt out as `shard` does. A rank alone needs no samples twice."""
    return BatchSamplerShard(
        batches,
        num_processes=ranks,
        process_index=rank,
        split_batches=shard.split_batches,
        even_batches=shard.even_batches and ranks > 1,
    )


@contextmanager
def accumulating(accelerator: Accelerator, piece: Piece | None, accumulation: int) -> Iterator[None]:
    """`accelerator.accumulate` over `accumulation` batches; a piece says itself when to step and what to divide by."""
    settings = accelerator.gradient_state.plugin_kwargs
    usual, settings["num_steps"] = settings.get("num_steps", 1), accumulation
    if piece is not None:
        accelerator.step = 0  # and so 1 when Accelerate looks whether it is a multiple of `num_steps`
        settings["num_steps"] = 1 if piece.is_last else 2
    try:
        with accelerator.accumulate(*accelerator._models):
            if piece is not None:
                settings["num_steps"] = piece.divisor
            yield
    finally:
        settings["num_steps"] = usual
        if piece is not None and piece.is_last:
            accelerator.step = 0


def keep_pace(scheduler: AcceleratedScheduler, layout: Layout, piece: Callable[[], Piece | None]) -> None:
    """Let a scheduler, which Accelerate steps once for every rank, step as often as it did on `layout.ranks` ranks."""
    if scheduler.split_batches or not scheduler.step_with_optimizer:
        return

    def step(*args: Any, **kwargs: Any) -> None:
        state, inner = scheduler.gradient_state, scheduler.scheduler
        if not state.sync_gradients or any(optimizer.step_was_skipped for optimizer in scheduler.optimizers):
            return
        now = piece()
        if state.adjust_scheduler and now is not None:
            inner._step_count += now.step_rows - 1  # as for batches of an accumulation that end without a step
        for _ in range(layout.ranks):
            if not hasattr(inner, "total_steps") or inner._step_count <= inner.total_steps:
                inner.step(*args, **kwargs)

    scheduler.step = step


def spread_own(owns: Sequence[Mapping[str, Any]], rank: int, position: Position) -> dict[str, Any]:
    """What `rank` gets of the ranks' own states when there were as many as `owns`.

    Ranks that there were keep their generators and registered objects; others get generators derived from their number
    and copies of rank 0's objects. Gradients of an accumulation that is under way are the mean of all: every rank takes
    it as its own, and so their mean over the ranks stays what it was.
    """
    own = dict(owns[rank]) if rank < len(owns) else copy.deepcopy(dict(owns[0]))
    if rank >= len(owns):
        with seeded(mix(_RANK, rank, position.step, position.micro_step)):
            own["generators"] = {**generator_state(), "cuda": []}
    own["gradients"] = [_mean(model) for model in zip(*(other.get("gradients", ()) for other in owns), strict=True)]
    return own


def _mean(gradients: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    names = dict.fromkeys(name for one in gradients for name in one)
    return {name: sum(one[name] for one in gradients if name in one) / len(gradients) for name in names}
