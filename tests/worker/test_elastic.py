"""A run that goes on with another number of ranks makes the same steps of the same samples."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch

from jtrain.domain.states import State
from jtrain.errors import DeviceError
from jtrain.run import Run
from tests.cells import start

pytestmark = pytest.mark.timeout(120)

CELL = """
import json, torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=60)
inputs = torch.randn(COUNT, 3)
data = TensorDataset(torch.arange(COUNT), inputs, inputs.sum(1, keepdim=True))

class Stream(IterableDataset):
    def __iter__(self):
        return iter(data)

if KIND == "stream":
    loader = DataLoader(Stream(), batch_size=4, num_workers=WORKERS)
else:
    loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=WORKERS)
model, optimizer, scheduler, loader = run.prepare(model, optimizer, scheduler, loader)
for numbers, given, wanted in run.batches(loader, epochs=3):
    step, divisor = run.global_step, run.accelerator.gradient_accumulation_steps
    loss = torch.nn.functional.mse_loss(model(given), wanted)
    run.step(loss)
    with open(SEEN / f"{run.id}-{run.rank}", "a") as file:
        print(json.dumps([step, run.epoch, numbers.tolist(), divisor * run.world_size, loss.item()]), file=file)
    if run.course.position.micro_step + 1 >= STOP_AFTER:
        if run.rank == 0:
            from jtrain.run import Run
            Run(run.id).pause()
        while not run.course._table.request:
            pass
weights = list(run.accelerator.unwrap_model(model).state_dict().values())
rate = optimizer.param_groups[0]["lr"], scheduler.scheduler._step_count
"""
NEVER = 10**6


def train(folder: Path, nproc: int, stop_after: int = NEVER, *, accumulate: int = 1, **options: Any) -> Run:
    names = {"COUNT": 46, "KIND": "shuffle", "WORKERS": 0, "STOP_AFTER": stop_after, "SEEN": folder}
    settings = {name: options.pop(name) for name in list(options) if name.isupper()}
    namespace = {**names, **settings, "__name__": "__main__"}
    return start(CELL, namespace, nproc=nproc, accumulate=accumulate, outputs=("weights", "rate"), **options)


def chain(folder: Path, *parts: tuple[int, int], **options: Any) -> Run:
    """Runs on so many ranks, each paused after so many batches and gone on from by the next one."""
    folder.mkdir(exist_ok=True)
    run = None
    for nproc, stop_after in parts:
        resumed: dict[str, Any] = {"resume": run.id} if run is not None else {}
        run = train(folder, nproc, stop_after, **options, **resumed)
        expected = State.FINISHED if stop_after == NEVER else State.PAUSED
        assert run.wait(timeout=60) is expected, (
            run.logs() + run.reason + (run.error.traceback_text if run.error else "")
        )
    assert run is not None
    return run


def steps_of(folder: Path) -> tuple[dict[tuple[int, int], dict[int, float]], list[float]]:
    """By epoch and step, what each sample weighed in it; and the loss of each step over all ranks."""
    weights: dict[tuple[int, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    losses: dict[int, float] = defaultdict(float)
    for file in folder.iterdir():
        for line in file.read_text().splitlines():
            step, epoch, numbers, divisor, loss = json.loads(line)
            for number in numbers if divisor != float("inf") else ():
                weights[epoch, step][number] += 1 / len(numbers) / divisor
            losses[step] += loss / divisor
    return weights, [losses[step] for step in sorted(losses)]


def assert_alike(folder: Path, changed: Run, straight: Run) -> None:
    mine, my_losses = steps_of(folder / "changed")
    theirs, their_losses = steps_of(folder / "straight")
    assert len(theirs) > 5
    assert mine.keys() == theirs.keys()
    for step in theirs:
        assert mine[step] == pytest.approx(theirs[step]), step
    assert my_losses == pytest.approx(their_losses, rel=1e-3, abs=1e-6)
    ours, others = changed.outputs(), straight.outputs()
    assert ours["rate"] == others["rate"]
    for one, other in zip(ours["weights"], others["weights"], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("ranks", "accumulate", "options"),
    [
        ((2, 1), 1, {}),
        ((2, 4), 1, {}),
        ((2, 4), 2, {"WORKERS": 2}),
        ((1, 2), 3, {}),
        ((4, 2), 1, {}),
        ((2, 3, 1), 3, {}),
        ((2, 4, 2), 2, {}),
        ((2, 1), 1, {"KIND": "stream", "COUNT": 48}),
        ((1, 2), 2, {"KIND": "stream", "COUNT": 48}),
    ],
)
def test_the_same_steps_of_the_same_samples(
    tmp_path: Path, ranks: tuple[int, ...], accumulate: int, options: Any
) -> None:
    stops = (4, 8, NEVER)[-len(ranks) :]
    changed = chain(tmp_path / "changed", *zip(ranks, stops, strict=True), accumulate=accumulate, **options)
    straight = chain(tmp_path / "straight", (ranks[0], NEVER), accumulate=accumulate, **options)
    assert_alike(tmp_path, changed, straight)


def test_a_run_is_resumed_with_other_devices_and_remembers_them(tmp_path: Path) -> None:
    run = chain(tmp_path / "changed", (2, 4))
    for devices in ({"nproc": 1}, {}):
        run.resume(**devices)
        assert run.wait(timeout=60) is State.PAUSED, run.logs()
        assert (run.spec.options.nproc, run.standing.nproc, len(run.standing.devices)) == (2, 1, 1)
    assert "made of the same samples, now of 2 batches" in run.notices()[0]["text"]
    with pytest.raises(DeviceError):
        run.resume(gpus="7")


STREAM = """
import torch
from torch.utils.data import DataLoader, IterableDataset

class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(40.)[:, None])

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
model, optimizer, loader = run.prepare(model, optimizer, DataLoader(Stream(), batch_size=4, num_workers=WORKERS))
for batch in run.batches(loader, epochs=2):
    run.step(model(batch / 40).pow(2).mean())
    run.checkpoint()
    if FAILS and run.global_step == 2:
        raise RuntimeError("enough")
"""


@pytest.mark.parametrize(
    ("workers", "nproc", "why"), [(0, 4, "too few for 4"), (1, 1, "IterableDataset with num_workers")]
)
def test_a_stream_that_can_not_be_shared_out_anew_is_refused_with_the_reason(
    workers: int, nproc: int, why: str
) -> None:
    names = {"WORKERS": workers, "__name__": "__main__"}
    first = start(STREAM, {**names, "FAILS": True}, nproc=2)
    assert first.wait(timeout=60) is State.FAILED
    second = start(STREAM, {**names, "FAILS": False}, nproc=nproc, resume=first.id)
    assert second.wait(timeout=60) is State.FAILED
    assert why in second.reason
    assert "Resume it on 2 ranks" in second.reason


def test_a_rank_alone_gets_each_sample_once() -> None:
    run = start(
        "import torch\n"
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "loader = run.prepare(DataLoader(TensorDataset(torch.arange(10)), batch_size=4))\n"
        "numbers = [batch.tolist() for [batch] in run.batches(loader)]",
        {"__name__": "__main__"},
        nproc=1,
        outputs=("numbers",),
    )
    assert run.result(timeout=60) == {"numbers": [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]}
