"""Killed at random steps, runs of many kinds come to the same losses and weights, to the bit.

Not every combination is tried: each pair of two properties stands side by side in at least one row of KINDS, as far as
they can.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from jtrain.domain.states import State
from jtrain.run import Run
from tests.cells import start

pytestmark = pytest.mark.timeout(120)

CELL = """
import os, random, signal
import numpy, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

COUNT = 44

def sample(index):
    noise = random.random() + numpy.random.rand() + torch.rand(1).item()
    return torch.full((4,), index / COUNT) + noise, torch.tensor([index % 3 / 3.0])

class Noisy(Dataset):
    def __len__(self): return COUNT
    def __getitem__(self, index): return sample(index)

class Streamed(IterableDataset):
    def __iter__(self): return (sample(index) for index in range(COUNT))

class Stateful(IterableDataset):
    "Knows where it is, and goes on there, as streams of Hugging Face do."
    def __init__(self): self.at = 0
    def state_dict(self): return {"at": self.at}
    def load_state_dict(self, state): self.at = state["at"]
    def __iter__(self):
        for self.at in range(self.at, COUNT):
            yield sample(self.at)
        self.at = 0

model = torch.nn.Sequential(
    torch.nn.Linear(4, 16), torch.nn.BatchNorm1d(16) if "norm" in PARTS else torch.nn.Identity(),
    torch.nn.Dropout(0.3 if "dropout" in PARTS else 0), torch.nn.ReLU(), torch.nn.Linear(16, 1),
)
optimizer = {
    "foreach": lambda: torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True),
    "fused": lambda: torch.optim.AdamW(model.parameters(), lr=0.01, fused=True),
    "momentum": lambda: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True),
}[OPTIMIZER]()
scheduler = {
    "onecycle": lambda: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=60),
    "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40),
}[SCHEDULE]()
loader = {
    "shuffle": lambda: DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=WORKERS),
    "weighted": lambda: DataLoader(
        Noisy(), batch_size=4, sampler=WeightedRandomSampler([1.0, 2.0] * (COUNT // 2), COUNT), num_workers=WORKERS
    ),
    "stream": lambda: DataLoader(Streamed(), batch_size=4, num_workers=WORKERS),
    "stateful": lambda: DataLoader(Stateful(), batch_size=4, num_workers=WORKERS),
}[DATA]()
model, optimizer, scheduler, loader = run.prepare(model, optimizer, scheduler, loader)
average = run.register("average", torch.optim.swa_utils.AveragedModel(run.accelerator.unwrap_model(model)))
scaler = run.register("scaler", torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3))
order = run.register("order", [])
for given, wanted in run.batches(loader, epochs=2):
    if PRECISION == "fp16":
        with torch.autocast("cpu", torch.float16):
            loss = torch.nn.functional.mse_loss(model(given).float(), wanted)
        scaler.scale(loss / run.accelerator.gradient_accumulation_steps).backward()
        if run.accelerator.sync_gradients:
            scaler.step(optimizer.optimizer)
            scaler.update()
            scheduler.step()
            optimizer.optimizer.zero_grad()
    else:
        loss = torch.nn.functional.mse_loss(model(given), wanted)
        run.step(loss)
    if run.accelerator.sync_gradients:
        average.update_parameters(run.accelerator.unwrap_model(model))
    order.append((given.sum().item(), loss.item()))
    if len(order) in DIES and not (FOLDER / str(len(order))).exists() and run.rank == DIES[len(order)]:
        (FOLDER / str(len(order))).touch()
        os.kill(os.getpid(), signal.SIGKILL)
weights = [*run.accelerator.unwrap_model(model).state_dict().values(), *average.state_dict().values()]
rest = scaler.state_dict(), scheduler.state_dict()["last_epoch"]
"""

KINDS = [
    # ranks, data, workers, accumulation, precision, parts, optimizer, schedule
    (1, "shuffle", 0, 1, "no", "dropout norm", "fused", "onecycle"),
    (1, "weighted", 2, 3, "bf16", "norm", "foreach", "cosine"),
    (1, "stream", 2, 1, "fp16", "dropout", "momentum", "cosine"),
    (1, "stateful", 0, 3, "fp16", "norm", "fused", "onecycle"),
    (2, "shuffle", 2, 3, "bf16", "dropout", "momentum", "onecycle"),
    (2, "weighted", 0, 1, "fp16", "dropout norm", "foreach", "onecycle"),
    (2, "stream", 0, 3, "no", "norm", "fused", "cosine"),
    (2, "stateful", 2, 1, "bf16", "dropout norm", "foreach", "cosine"),
    (2, "weighted", 2, 3, "no", "dropout", "fused", "onecycle"),
]


def train(folder: Path, kind: tuple[Any, ...], dies: dict[int, int]) -> Run:
    nproc, data, workers, accumulate, precision, parts, optimizer, schedule = kind
    names = {"DATA": data, "WORKERS": workers, "PRECISION": precision, "PARTS": parts.split(), "OPTIMIZER": optimizer}
    names |= {"SCHEDULE": schedule, "DIES": dies, "FOLDER": folder, "__name__": "__main__"}
    run = start(
        CELL,
        names,
        nproc=nproc,
        accumulate=accumulate,
        precision="bf16" if precision == "bf16" else "no",
        checkpoint_every="2steps",
        max_restarts=2,
        outputs=("order", "weights", "rest"),
    )
    assert run.wait(timeout=100) is State.FINISHED, run.reason + (run.error.traceback_text if run.error else "")
    return run


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)).replace(" ", "+"))
def test_a_killed_run_comes_to_the_same_numbers(tmp_path: Path, kind: tuple[Any, ...]) -> None:
    chance = random.Random(repr(kind))
    straight = train(tmp_path, kind, {})
    number = len(straight.outputs()["order"])
    broken = train(tmp_path, kind, {chance.randrange(3, number): chance.randrange(kind[0])})
    assert len(broken.attempts) == 2
    mine, theirs = broken.outputs(), straight.outputs()
    assert mine["order"] == theirs["order"]
    assert mine["rest"] == theirs["rest"]
    assert all(torch.equal(one, other) for one, other in zip(mine["weights"], theirs["weights"], strict=True))
    if "loss" in straight.metrics:
        np.testing.assert_array_equal(broken.metrics["loss"], straight.metrics["loss"])
