"""How an epoch's batches are dealt out on another number of ranks than the run began with."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product, zip_longest

import pytest
from accelerate.data_loader import BatchSamplerShard
from torch.utils.data import BatchSampler, SequentialSampler

from jtrain.worker.elastic import Layout, Piece, Spread, rows, shard_for


def shard_of(count: int, size: int, *, drop_last: bool = False, split: bool = False) -> BatchSamplerShard:
    batches = BatchSampler(SequentialSampler(range(count)), size, drop_last)
    return BatchSamplerShard(batches, 1, 0, split_batches=split, even_batches=True)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("split", [False, True])
def test_rows_are_what_the_ranks_would_get(drop_last: bool, split: bool) -> None:
    for count, ranks in product(range(40), (1, 2, 3, 4)):
        size = 12 if split else 3
        shard = shard_of(count, size, drop_last=drop_last, split=split)
        theirs = [shard_for(shard, shard.batch_sampler, ranks, rank) for rank in range(ranks)]
        expected = [list(row) for row in zip_longest(*theirs)]
        assert list(rows(shard, ranks)) == expected, (count, ranks)


def deal(spread: Spread, shard: BatchSamplerShard, start: int) -> list[list[Piece]]:
    """All ranks' pieces, one list for each time that every rank gets one."""
    return [
        list(hand)
        for hand in zip(
            *(spread.pieces(rows(shard, spread.layout.ranks), start, rank) for rank in range(spread.size)), strict=True
        )
    ]


@pytest.mark.parametrize(("before", "now"), [(2, 1), (2, 4), (1, 2), (4, 2), (2, 3), (3, 2), (1, 4), (4, 1)])
def test_every_sample_of_a_step_weighs_what_it_weighed(before: int, now: int) -> None:
    for count, size, accumulation, start in product((1, 7, 24, 46), (1, 3, 4), (1, 2, 3), (0, 1, 2)):
        shard, spread = shard_of(count, size), Spread(Layout(before, accumulation), now)
        expected: list[dict[int, Fraction]] = []
        for number, row in enumerate(rows(shard, before)):
            if number % accumulation == 0 or number == start:
                expected.append(defaultdict(Fraction))
            if number >= start:
                for batch in row:
                    for index in batch:
                        expected[-1][index] += Fraction(1, len(batch) * accumulation * before)
        dealt: list[dict[int, float]] = [defaultdict(float)]
        for hand in deal(spread, shard, start):
            for piece in hand:
                for index in piece.indices:
                    dealt[-1][index] += 1 / (len(piece.indices) * piece.divisor * now)
            assert len({piece.is_last for piece in hand}) == 1
            if hand[0].is_last:
                dealt.append(defaultdict(float))
        wanted = [step for step in expected if step]
        assert len(dealt) - 1 == len(wanted)
        for mine, theirs in zip(dealt, wanted, strict=False):
            assert mine == pytest.approx({index: float(weight) for index, weight in theirs.items()})


def test_few_ranks_accumulate_and_many_cut_batches() -> None:
    assert Spread(Layout(2, 1), 1).accumulation == 2
    assert Spread(Layout(4, 3), 2).accumulation == 6
    many = Spread(Layout(2, 1), 4)
    assert (many.accumulation, many.cuts) == (1, 2)
    odd = Spread(Layout(2, 2), 3)
    assert (odd.accumulation, odd.cuts) == (4, 3)


def test_an_accumulation_that_was_under_way_ends_where_it_would_have() -> None:
    spread = Spread(Layout(2, 3), 1)
    pieces = list(spread.pieces(rows(shard_of(48, 4), 2), 1, 0))
    assert [piece.is_last for piece in pieces] == [False] * 3 + [True] + [False] * 5 + [True]
    assert [piece.rows for piece in pieces if piece.is_last] == [3, 6]
    assert pieces[0].step_rows == 2
