"""Loops as users write them, on two real ranks."""

from __future__ import annotations

from typing import Any

import pytest

from jtrain.domain.states import State
from jtrain.run import Run
from tests.cells import start

pytestmark = pytest.mark.timeout(60)

SETUP = """
import time
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


def test_a_loop_without_a_batch_is_said() -> None:
    run = start(SETUP + "for batch in run.batches(run.prepare(loader_of(3, batch_size=4, drop_last=True))):\n    pass")
    assert run.wait(timeout=60) is State.FINISHED
    assert ["no batch" in notice["text"] for notice in run.notices()] == [True]


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
            while not run.course._table.request: time.sleep(0.001)
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
for batch in run.batches(loader):
    learn(batch)
    run.checkpoint()
out = run.checkpoint()
""",
        {"__name__": "__main__"},
        outputs=("out",),
        keep=2,
    )
    assert run.result(timeout=50)["out"] == "step-000010-2"
    assert [checkpoint.name for checkpoint in run.checkpoints()] == ["step-000010", "step-000010-2"]


def test_the_cells_own_accelerator_keeps_its_settings_and_is_the_one_that_steps() -> None:
    out = result("""
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader_of(32))
before = [value.detach().clone() for value in model.parameters()]
for batch in run.batches(loader):
    learn(batch)
moved = any((a != b).any().item() for a, b in zip(before, model.parameters()))
out = run.accelerator is accelerator, accelerator.gradient_accumulation_steps, run.global_step, moved
""")
    assert out == (True, 4, 2, True)


def test_an_accelerator_that_a_function_keeps_is_not_overruled() -> None:
    out = result("""
from accelerate import Accelerator
def keep():
    accelerator = Accelerator(gradient_accumulation_steps=3)
    return lambda: accelerator.gradient_accumulation_steps
steps = keep()
out = run.accelerator.gradient_accumulation_steps, steps()
""")
    assert out == (3, 3)


def test_a_step_without_an_optimizer_is_refused_instead_of_training_nothing() -> None:
    run = start(SETUP + "learn(next(iter(loader_of(4))))", {"__name__": "__main__"}, nproc=1)
    assert run.wait(timeout=50) is State.FAILED
    assert "run.prepare(model, optimizer, loader)" in run.reason


def test_a_loss_that_is_no_tensor_is_named() -> None:
    run = start("run.step(0.5)", nproc=1)
    assert run.wait(timeout=50) is State.FAILED
    assert ".item()" in run.reason


OWN_STEP = """
model, optimizer, loader = run.prepare(model, optimizer, loader_of(32))
for batch in run.batches(loader):
    run.accelerator.backward(model(batch[0]).pow(2).mean())
    optimizer.step()
    optimizer.zero_grad()
out = run.global_step
"""


def test_steps_that_the_cell_makes_itself_count() -> None:
    run = start(SETUP + OWN_STEP, {"__name__": "__main__"}, outputs=("out",), checkpoint_every="3steps", accumulate=2)
    assert run.result(timeout=50)["out"] == 4
    assert [checkpoint.name for checkpoint in run.checkpoints()] == ["step-000003"]


def test_a_loop_of_ones_own_is_checkpointed_every_so_many_steps() -> None:
    run = start(
        SETUP
        + """
model, optimizer = run.prepare(model, optimizer)
for _ in range(6):
    if run.should_stop:
        break
    run.step(model(torch.ones(2, 1)).pow(2).mean())
    time.sleep(0.4)  # a checkpoint that is due while one is being written is put off
""",
        {"__name__": "__main__"},
        checkpoint_every="2steps",
    )
    assert run.wait(timeout=50) is State.FINISHED
    assert [checkpoint.step for checkpoint in run.checkpoints()] == [2, 4]


def test_should_stop_leaves_pausing_to_the_batches_loop_around_it() -> None:
    out = result("""
model, optimizer, loader = run.prepare(model, optimizer, loader_of(8))
out = []
for batch in run.batches(loader):
    learn(batch)
    out.append(run.should_stop)
""")
    assert out == [False, False]


def test_progress_counts_the_steps_that_will_be_made() -> None:
    out = result(
        """
model, optimizer, loader = run.prepare(model, optimizer, loader_of(20))
row = run.course.row
seen = []
for epoch in run.epochs(3):
    for batch in run.batches(loader):
        learn(batch)
        seen.append((row.total_steps, row.epochs))
out = set(seen), row.step, row.epoch
""",
        accumulate=2,
    )
    assert out == ({(9, 3)}, 9, 2)


def test_accelerator_log_feeds_the_metrics() -> None:
    run = start("run.accelerator.log({'mine': 4.0}, step=3)", nproc=1)
    assert run.wait(timeout=50) is State.FINISHED
    assert list(run.metrics["mine"]) == [4.0]


def test_any_iterable_can_be_gone_over() -> None:
    assert result("out = list(run.batches(range(3), epochs=2))", nproc=1) == [0, 1, 2, 0, 1, 2]


PAUSING = """
import time
model, optimizer, loader = run.prepare(model, optimizer, loader_of(4000))
def train():
    for batch in run.batches(loader):
        learn(batch)
        time.sleep(0.005)
"""


def pause(source: str) -> Run:
    run = start(SETUP + PAUSING + source, {"__name__": "__main__"})
    while run.progress.step < 2:
        pass
    run.pause()
    run.wait(timeout=30)
    return run


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    train()\nexcept BaseException:\n    pass",
        "try:\n    train()\nfinally:\n    1 / 0",
        "while True:\n    try:\n        train()\n    except BaseException:\n        pass",
    ],
    ids=["caught", "cleaning up fails", "caught for ever"],
)
def test_a_pause_holds_whatever_the_cell_does_about_it(source: str) -> None:
    run = pause(source)
    assert run.state is State.PAUSED, run.reason
    assert len(run.checkpoints()) == 1
