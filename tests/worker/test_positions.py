"""Wherever a checkpoint is taken, going on from it is exact: in a batch's body, between loops, beside others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jtrain.domain.states import State
from tests.cells import start

pytestmark = pytest.mark.timeout(90)

SETUP = """
import os, random, signal, torch
from torch.utils.data import DataLoader, TensorDataset

def die():
    "End all ranks at once, the first time."
    run.accelerator.wait_for_everyone()
    if not DIED.exists():
        run.accelerator.wait_for_everyone()
        DIED.touch()
        os.kill(os.getpid(), signal.SIGKILL)

def loader_of(count, **options):
    return DataLoader(TensorDataset(torch.arange(count).float()[:, None]), batch_size=2, shuffle=True, **options)

def numbers(batch):
    return [int(value) for value in batch[0].flatten()]

def learn(batch):
    loss = model(batch[0] / 10).pow(2).mean()
    run.step(loss)
    losses.append((numbers(batch), loss.item()))

model = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
model, optimizer = run.prepare(model, optimizer)
losses = run.register("losses", [])
"""

PLACES = {
    "in a batch's body, after its step": """
loader = run.prepare(loader_of(16))
for batch in run.batches(loader, epochs=2):
    learn(batch)
    if len(losses) == 3:
        run.checkpoint()
    if len(losses) == 5:
        die()
""",
    "in a batch's body, before its step": """
loader = run.prepare(loader_of(16))
for batch in run.batches(loader, epochs=2):
    if len(losses) == 3:
        run.checkpoint()
    learn(batch)
    if len(losses) == 6:
        die()
""",
    "after each epoch": """
loader = run.prepare(loader_of(12))
for epoch in range(4):
    for batch in run.batches(loader):
        learn(batch)
        if epoch == 2 and len(losses) == 8:
            die()
    run.checkpoint()
""",
    "after each epoch of run.epochs, with a validation that draws random numbers": """
loader = run.prepare(loader_of(12))
for epoch in run.epochs(4):
    for batch in run.batches(loader):
        learn(batch)
    losses.append(torch.rand(1).item())
    run.checkpoint()
    losses.append(random.random())
    if epoch == 2:
        die()
""",
    "after a loop that was left by break": """
loader = run.prepare(loader_of(16))
for epoch in range(3):
    for number, batch in enumerate(run.batches(loader)):
        if number == 2:
            break
        learn(batch)
    run.checkpoint()
    if epoch == 1:
        die()
""",
    "after the last loop": """
loader = run.prepare(loader_of(12))
for batch in run.batches(loader, epochs=2):
    learn(batch)
run.checkpoint()
die()
losses.append([value.flatten().tolist() for value in model.parameters()])
""",
    "twice between two loops": """
loader = run.prepare(loader_of(12))
for batch in run.batches(loader):
    learn(batch)
run.checkpoint()
losses.append(random.random())
run.checkpoint()
die()
losses.append(random.random())
for batch in run.batches(loader):
    learn(batch)
""",
    "in one of two loops side by side": """
first, second = run.prepare(loader_of(24), loader_of(16))
for one, other in zip(run.batches(first, epochs=2), run.batches(second, epochs=3)):
    learn(one)
    losses.append(numbers(other))
    if len(losses) == 10:
        run.checkpoint()
    if len(losses) == 14:
        die()
""",
    "in a validation loop that draws random numbers": """
loader, check = run.prepare(loader_of(16), loader_of(8))
for batch in run.batches(loader, epochs=2):
    learn(batch)
    for inner in run.batches(check):
        losses.append((numbers(inner), torch.rand(1).item()))
        if len(losses) == 17:
            run.checkpoint()
    if len(losses) == 21:
        die()
""",
    "over a loader that the cell's own Accelerator has prepared": """
loader = run.accelerator.prepare(loader_of(16))
for epoch in range(3):
    for batch in run.batches(loader):
        learn(batch)
        if len(losses) == 6:
            run.checkpoint()
        if len(losses) == 9:
            die()
""",
    "in a loop left by break right after asking": """
loader = run.prepare(loader_of(16))
for epoch in range(3):
    for number, batch in enumerate(run.batches(loader)):
        learn(batch)
        if number == 2:
            run.checkpoint()
            break
    if epoch == 1:
        for batch in run.batches(loader):
            learn(batch)
            die()
""",
    "in the second of two run.epochs loops": """
loader = run.prepare(loader_of(12))
for epoch in run.epochs(3):
    for batch in run.batches(loader):
        learn(batch)
for epoch in run.epochs(3):
    for batch in run.batches(loader):
        learn(batch)
        if epoch == 1:
            run.checkpoint()
    if epoch == 1:
        die()
""",
    "between loops of the cell's own, inside run.epochs": """
for epoch in run.epochs(4):
    for _ in range(3):
        run.step(model(torch.rand(2, 1)).pow(2).mean())
        losses.append(random.random())
    run.checkpoint()
    if epoch == 2:
        die()
""",
    "over a sampler that is told the epoch": """
class Turning:
    epoch = 0
    def set_epoch(self, epoch): self.epoch = epoch
    def __len__(self): return 16
    def __iter__(self): return ((index * 3 + self.epoch) % 16 for index in range(16))
loader = run.prepare(DataLoader(TensorDataset(torch.arange(16.)[:, None]), batch_size=2, sampler=Turning()))
for epoch in range(4):
    for batch in run.batches(loader):
        learn(batch)
    run.checkpoint()
    if epoch == 1:
        for batch in run.batches(loader):
            learn(batch)
            die()
""",
    "with a new loader in every epoch": """
for epoch in run.epochs(4):
    for batch in run.batches(loader_of(12)):
        learn(batch)
        if epoch == 2:
            run.checkpoint()
    if epoch == 2:
        die()
""",
    "with a loader prepared in every epoch": """
for epoch in run.epochs(4):
    loader = run.prepare(loader_of(12))
    for batch in run.batches(loader):
        learn(batch)
        if epoch == 2:
            run.checkpoint()
    if epoch == 2:
        die()
""",
}


def losses_of(source: str, died: Path, **options: Any) -> Any:
    run = start(SETUP + source, {"DIED": died, "__name__": "__main__"}, outputs=("losses",), max_restarts=1, **options)
    assert run.wait(timeout=80) is State.FINISHED, run.reason + (run.error.traceback_text if run.error else "")
    return len(run.attempts), run.outputs()["losses"]


@pytest.mark.parametrize("place", PLACES)
def test_a_run_that_died_goes_on_exactly(tmp_path: Path, place: str) -> None:
    died = tmp_path / "died"
    died.touch()
    _, straight = losses_of(PLACES[place], died)
    died.unlink()
    attempts, broken = losses_of(PLACES[place], died)
    assert attempts == 2
    assert broken == straight
