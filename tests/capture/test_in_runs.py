"""Captures in real runs."""

from __future__ import annotations

import linecache
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.cells import start

NOTEBOOK = """
import torch
from torch.utils.data import DataLoader, Dataset
scale = 2.0
class Squares(Dataset):
    transform = staticmethod(lambda x: x * scale)
    def __len__(self): return 16
    def __getitem__(self, index): return self.transform(torch.tensor([float(index)])), torch.tensor([1.0])
def collate(items): return tuple(torch.stack(part) for part in zip(*items))
def seed_worker(number):
    global seeded
    seeded = number
class Net(torch.nn.Linear):
    def forward(self, x): return super().forward(x) * factor()
def factor(): return late
model = Net(1, 1)
big = torch.zeros(100_000)
scale = 1.0
late = 0.01
"""
CELL = """
loader = DataLoader(Squares(), 4, num_workers=1, collate_fn=collate, worker_init_fn=seed_worker, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = run.prepare(model, optimizer, loader)
for given, wanted in run.batches(loader, epochs=1):
    run.step(torch.nn.functional.mse_loss(model(given), wanted))
big += run.rank + 1
total = float(big.sum())
"""


def test_a_notebooks_classes_train_on_two_ranks_and_come_back() -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(NOTEBOOK, space)
    run = start(CELL, space, outputs=("model", "total"))
    run.wait(timeout=100)
    values = run.outputs(space)
    assert type(values["model"]) is space["Net"]
    assert values["model"] is not space["model"]
    assert not np.array_equal(values["model"].weight.detach(), space["model"].weight.detach())
    assert values["total"] == 100_000
    assert float(space["big"].sum()) == 0


SCRIPT = """
import argparse, jtrain
args, fn = argparse.Namespace(rate=0.5), "mine"
def train(n): return args.rate * n, fn
print(jtrain.launch(train, 4, nproc=1, gpus="none").result(timeout=100))
"""


def test_a_launched_function_may_use_globals_of_any_name(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, env=os.environ, check=False)
    assert done.stdout == "(2.0, 'mine')\n", done.stderr


CLUMSY = """
class Clumsy:
    def __getattr__(self, name):
        raise RuntimeError(f"asked for {name}")
class Holder:
    part = Clumsy()
clumsy, holder = Clumsy(), Holder()
"""


def test_objects_whose_attributes_raise_are_not_asked_for_any() -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(CLUMSY, space)
    run = start("kinds = [type(each).__name__ for each in (clumsy, holder)]", space, nproc=1, outputs=("kinds",))
    assert run.result(timeout=60) == {"kinds": ["Clumsy", "Holder"]}


FRAGILE = """
class Fragile:
    def __setstate__(self, state):
        raise ValueError("only where it was made")
fragile = Fragile()
fragile.part = 1
"""


def test_an_error_while_a_variable_is_made_anew_names_it_and_shows_its_class() -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    linecache.cache["<a cell>"] = (len(FRAGILE), None, FRAGILE.splitlines(keepends=True), "<a cell>")
    exec(compile(FRAGILE, "<a cell>", "exec"), space)
    run = start("print(fragile)", space, nproc=1)
    run.wait(timeout=60)
    error = run.error
    assert error is not None
    assert "'fragile'" in error.message
    assert (error.frames[-1]["user"], error.frames[-1]["text"]) == (True, 'raise ValueError("only where it was made")')
