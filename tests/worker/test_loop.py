"""Loops as users write them, on two real ranks."""

from __future__ import annotations

from typing import Any

import pytest

from jtrain.domain.states import State
from jtrain.run import Run
from tests.cells import start

pytestmark = pytest.mark.timeout(60)

SETUP = """
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def loader_of(count, batch_size=2, **options):
    return DataLoader(TensorDataset(torch.arange(count).float()[:, None]), batch_size=batch_size, **options)
def numbers(batch):
    return [int(value) for value in batch[0].flatten()]
def gather(values):
    import torch.distributed as dist
    everyone = [None] * run.world_size
    run.accelerator
    dist.all_gather_object(everyone, values)
    return everyone
def learn(batch):
    run.step(model(batch[0]).pow(2).mean())
"""


def result(source: str, **options: Any) -> Any:
    run = start(SETUP + source, {"__name__": "__main__"}, outputs=("out",), **options)
    assert run.wait(timeout=50) is State.FINISHED, run.reason + (run.error.traceback_text if run.error else "")
    return run.outputs()["out"]


def test_every_sample_is_seen_by_exactly_one_rank_in_each_epoch() -> None:
    out = result("""
model, optimizer, loader = run.prepare(model, optimizer, loader_of(16, shuffle=True))
out = []
for epoch in range(2):
    seen = []
    for batch in run.batches(loader):
        learn(batch)
        seen += numbers(batch)
    out.append(gather(seen))
""")
    for epoch in out:
        assert sorted(epoch[0] + epoch[1]) == list(range(16))
    assert out[0] != out[1], "the order must differ from epoch to epoch"


def test_a_tail_that_does_not_fit_gives_all_ranks_as_many_batches() -> None:
    out = result("""
model, optimizer, loader = run.prepare(model, optimizer, loader_of(7))
out = gather([numbers(batch) for batch in run.batches(loader)])
""")
    assert len(out[0]) == len(out[1])
    assert set(range(7)) == {number for rank in out for batch in rank for number in batch}


@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_loader_and_one_smaller_than_the_world_work(count: int) -> None:
    out = result(f"""
model, optimizer, loader = run.prepare(model, optimizer, loader_of({count}, batch_size=1))
out = gather([numbers(batch) for batch in run.batches(loader, epochs=2)])
""")
    assert len(out[0]) == len(out[1]) == 2 * count


def test_breaking_out_nested_loops_and_several_loaders() -> None:
    out = result("""
model, optimizer, first, second = run.prepare(model, optimizer, loader_of(16), loader_of(8))
out = {"first": 0, "nested": 0, "second": 0}
for batch in run.batches(first, epochs=2):
    learn(batch)
    out["first"] += 1
    if out["first"] == 3:
        for inner in run.batches(second):
            out["nested"] += 1
        break
for batch in run.batches(second, epochs=2):
    learn(batch)
    out["second"] += 1
""")
    assert out == {"first": 3, "nested": 2, "second": 4}


def test_a_loader_of_unknown_length() -> None:
    out = result("""
class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(12).float()[:, None, None].unbind())
model, optimizer, loader = run.prepare(model, optimizer, DataLoader(Stream(), batch_size=2))
out = gather([[int(value) for value in batch.flatten()] for batch in run.batches(loader)])
""")
    assert sorted(number for rank in out for batch in rank for number in batch) == list(range(12))


def test_an_unprepared_loader_is_shared_out_too() -> None:
    out = result("""
model, optimizer = run.prepare(model, optimizer)
loader = loader_of(8)
out = gather([numbers(batch) for epoch in range(2) for batch in run.batches(loader)])
""")
    assert sorted(number for rank in out for batch in rank for number in batch) == sorted([*range(8), *range(8)])


def test_accumulation_updates_once_per_window_and_logs_the_mean() -> None:
    run = start(
        SETUP
        + """
model, optimizer, loader = run.prepare(model, optimizer, loader_of(24))
losses = []
for batch in run.batches(loader):
    loss = model(batch[0]).pow(2).mean()
    losses.append(loss.item())
    run.step(loss)
out = (run.global_step, losses)
""",
        {"__name__": "__main__"},
        outputs=("out",),
        accumulate=3,
    )
    steps, losses = run.result(timeout=50)["out"]
    assert steps == len(run.metrics["loss"]) == 2
    assert run.metrics["loss"][0] == pytest.approx(sum(losses[:3]) / 3)


def test_gather_for_metrics_drops_what_was_added_to_fill_the_last_batch() -> None:
    out = result("""
model, optimizer, loader = run.prepare(model, optimizer, loader_of(7))
out = []
for batch in loader:
    out += [int(value) for value in run.accelerator.gather_for_metrics(batch[0]).flatten()]
""")
    assert sorted(out) == list(range(7))


def test_an_outer_loop_with_validation_goes_on_where_it_was(tmp_path) -> None:
    source = (
        SETUP
        + """
import pathlib, time
model, optimizer, loader = run.prepare(model, optimizer, loader_of(16, shuffle=True))
check = run.prepare(loader_of(4))
trail = run.register("trail", [])
for epoch in run.epochs(4):
    for batch in run.batches(loader):
        learn(batch)
        trail.append((epoch, *numbers(batch)))
        if (epoch, len(trail)) == (2, 12) and not FLAG.exists():
            if run.rank == 0:
                FLAG.touch()
                from jtrain.run import Run
                Run(run.id).pause()
            while not run.loop._table.request: time.sleep(0.001)
    trail.append(("checked", sum(len(numbers(batch)) for batch in check)))
    run.log({"val/epoch": epoch})
out = trail
"""
    )

    def train(flag: bool) -> Run:
        path = tmp_path / "flag"
        path.touch() if not flag else path.unlink(missing_ok=True)
        return start(source, {"FLAG": path, "__name__": "__main__"}, outputs=("out",))

    straight = train(flag=False)
    wanted = straight.result(timeout=50)["out"]
    broken = train(flag=True)
    assert broken.wait(timeout=50) is State.PAUSED
    assert broken.resume().result(timeout=50)["out"] == wanted
    assert list(broken.metrics["val/epoch"]) == [0, 1, 2, 3]


def test_a_loop_of_ones_own_stops_at_should_stop_on_all_ranks() -> None:
    run = start(
        SETUP
        + """
import time
model, optimizer = run.prepare(model, optimizer)
while not run.should_stop:
    time.sleep(0.005)
""",
        {"__name__": "__main__"},
    )
    while run.state is not State.RUNNING:
        pass
    run.pause()
    assert run.wait(timeout=50) is State.PAUSED
    assert len(run.checkpoints()) == 1


def test_a_checkpoint_by_hand_and_retention() -> None:
    run = start(
        SETUP
        + """
model, optimizer, loader = run.prepare(model, optimizer, loader_of(40))
names = []
for batch in run.batches(loader):
    learn(batch)
    names.append(run.checkpoint())
out = names
""",
        {"__name__": "__main__"},
        outputs=("out",),
        keep=2,
    )
    names = run.result(timeout=50)["out"]
    assert names[-1] == "step-000010"
    assert [checkpoint.name for checkpoint in run.checkpoints()] == names[-2:]
