"""The ranks agree on one boundary, whatever their speeds."""

import multiprocessing
import random
import time
from pathlib import Path

import pytest

from jtrain.store.ranks import RankTable, Request


def _drift(
    path: str, rank: int, seed: int, steps: int, found: "multiprocessing.Queue[tuple[int, list[tuple[int, int]]]]"
) -> None:
    """A rank whose steps take random times; it may run up to any distance ahead of the others."""
    table = RankTable.open(Path(path))
    rng = random.Random(seed * 100 + rank)
    stops = []
    for number in range(1, steps + 1):
        request = table.boundary(rank, number)
        if request is not Request.NONE:
            stops.append((number, int(request)))
            if request is Request.PAUSE:
                break
        time.sleep(rng.random() * 0.002)
    table.row(rank).done = 1
    found.put((rank, stops))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_all_ranks_serve_every_request_at_the_same_boundary(tmp_path: Path, seed: int, world_size: int) -> None:
    path = tmp_path / "ranks.bin"
    table = RankTable.create(path, world_size)
    context = multiprocessing.get_context("fork")
    found = context.Queue()
    ranks = [context.Process(target=_drift, args=(str(path), rank, seed, 4000, found)) for rank in range(world_size)]
    for process in ranks:
        process.start()
    rng = random.Random(seed)
    for request in (Request.CHECKPOINT, Request.CHECKPOINT, Request.PAUSE):
        time.sleep(rng.random() * 0.05)
        while not table.is_served():
            time.sleep(0.001)
        table.set_request(request)
    stops = dict(found.get(timeout=30) for _ in ranks)
    for process in ranks:
        process.join(10)
    assert len(stops[0]) == 3
    assert [request for _, request in stops[0]] == [2, 2, 1]
    assert all(stops[rank] == stops[0] for rank in stops)


def test_a_request_can_not_be_replaced_while_ranks_may_be_agreeing_on_it(tmp_path: Path) -> None:
    table = RankTable.create(tmp_path / "ranks.bin", 2)
    table.set_request(Request.CHECKPOINT)
    with pytest.raises(RuntimeError, match="CHECKPOINT"):
        table.set_request(Request.PAUSE)


def test_a_finished_rank_does_not_hold_up_the_others(tmp_path: Path) -> None:
    table = RankTable.create(tmp_path / "ranks.bin", 2)
    table.row(1).done = 1
    table.set_request(Request.PAUSE)
    assert table.boundary(0, 1) is Request.PAUSE


def test_rows_keep_integers_and_floats_for_other_readers(tmp_path: Path) -> None:
    table = RankTable.create(tmp_path / "ranks.bin", 2)
    table.row(1).step, table.row(1).loss = 7, 0.25
    reader = RankTable.open(tmp_path / "ranks.bin", writable=False)
    assert (reader.row(1).step, reader.row(1).loss, reader.row(0).step) == (7, 0.25, 0)
    with pytest.raises(AttributeError):
        reader.row(0).no_such_cell = 1
