"""A run that was paused anywhere goes on to the same losses and weights, to the bit."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from jtrain.domain.states import State
from jtrain.run import Run
from tests.cells import start

pytestmark = pytest.mark.timeout(120)

CELL = """
import random, numpy, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

class Noisy(Dataset):
    def __init__(self, count): self.count = count
    def __len__(self): return self.count
    def __getitem__(self, index):
        noise = random.random() + numpy.random.rand() + torch.rand(1).item()
        return torch.full((4,), index / self.count) + noise, torch.tensor([index % 3 / 3.0])

class Streamed(IterableDataset):
    def __init__(self, count): self.count = count
    def __iter__(self):
        for index in range(self.count):
            yield torch.full((4,), index / self.count) + torch.rand(1).item(), torch.tensor([index % 3 / 3.0])

class Backwards:
    "A sampler of the user's own, with random numbers of its own."
    def __init__(self, count): self.count = count
    def __len__(self): return self.count
    def __iter__(self):
        for index in reversed(range(self.count)):
            yield (index + random.randrange(self.count)) % self.count

def join(samples):
    given, wanted = zip(*samples)
    return torch.stack(given) * (1 + numpy.random.rand()), torch.stack(wanted)

model = torch.nn.Sequential(
    torch.nn.Linear(4, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.3), torch.nn.ReLU(), torch.nn.Linear(16, 1)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
COUNT, EPOCHS = 46, 3
if KIND == "stream":
    loader = DataLoader(Streamed(COUNT), batch_size=4, num_workers=WORKERS, persistent_workers=WORKERS > 0)
else:
    sampler = {"weighted": WeightedRandomSampler([1.0] * COUNT, COUNT), "own": Backwards(COUNT)}.get(KIND)
    loader = DataLoader(
        Noisy(COUNT), batch_size=4, shuffle=sampler is None, sampler=sampler, num_workers=WORKERS,
        collate_fn=join, persistent_workers=WORKERS > 0,
    )
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
model, optimizer, scheduler, loader = run.prepare(model, optimizer, scheduler, loader)
order = run.register("order", [])
seen = 0
for given, wanted in run.batches(loader, epochs=EPOCHS):
    loss = torch.nn.functional.mse_loss(model(given), wanted)
    run.step(loss)
    order.append(given.sum().item())
    seen += 1
    if seen == STOP_AFTER and not STOPPED.exists():
        if run.rank == 0:
            STOPPED.touch()
            from jtrain.run import Run
            Run(run.id).pause()
        while not run.course._table.request:
            pass
weights = [value for value in run.accelerator.unwrap_model(model).state_dict().values()]
"""


def train(tmp_path, kind: str, workers: int, accumulate: int, stop_after: int, nproc: int = 2) -> Run:
    names = {"KIND": kind, "WORKERS": workers, "STOP_AFTER": stop_after, "STOPPED": tmp_path / f"stopped-{stop_after}"}
    return start(
        CELL, {**names, "__name__": "__main__"}, nproc=nproc, accumulate=accumulate, outputs=("order", "weights")
    )


def assert_same(broken: Run, straight: Run) -> None:
    for run in (straight, broken):
        assert run.wait(timeout=100) is State.FINISHED, run.error and run.error.traceback_text
    np.testing.assert_array_equal(broken.metrics["loss"], straight.metrics["loss"])
    np.testing.assert_array_equal(broken.metrics["learning_rate"], straight.metrics["learning_rate"])
    mine, theirs = broken.outputs(), straight.outputs()
    assert mine["order"] == theirs["order"]
    assert all(torch.equal(a, b) for a, b in zip(mine["weights"], theirs["weights"], strict=True))


@pytest.mark.parametrize(
    ("kind", "workers", "accumulate"),
    [("shuffle", 0, 1), ("shuffle", 2, 3), ("weighted", 0, 2), ("own", 0, 1), ("stream", 0, 3), ("stream", 1, 1)],
)
def test_two_ranks_go_on_as_if_nothing_had_happened(tmp_path, kind: str, workers: int, accumulate: int) -> None:
    batches = 3 * 6
    stops = sorted({1, 6, *random.Random(kind).sample(range(2, batches), 2)})
    straight = train(tmp_path, kind, workers, accumulate, stop_after=0)
    for stop in stops:
        broken = train(tmp_path, kind, workers, accumulate, stop_after=stop)
        assert broken.wait(timeout=60) is State.PAUSED, broken.logs()
        assert_same(broken.resume(), straight)


def test_a_run_paused_again_and_again_stays_exact(tmp_path) -> None:
    straight = train(tmp_path, "shuffle", 0, 2, stop_after=0)
    broken = train(tmp_path, "shuffle", 0, 2, stop_after=3)
    assert broken.wait(timeout=60) is State.PAUSED
    (tmp_path / "stopped-3").unlink()
    assert broken.resume().wait(timeout=60) is State.PAUSED
    assert_same(broken.resume(), straight)


def test_one_rank_is_exact_too(tmp_path) -> None:
    straight = train(tmp_path, "shuffle", 0, 3, stop_after=0, nproc=1)
    broken = train(tmp_path, "shuffle", 0, 3, stop_after=5, nproc=1)
    assert broken.wait(timeout=60) is State.PAUSED
    assert_same(broken.resume(), straight)
