"""Runs that are killed at random instants, go on, and must come to the very same numbers."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import torch

from jtrain.domain.states import State
from jtrain.run import Run
from tests.cells import start

CELL = """
import os, random, shutil, time
import numpy, torch
from torch.utils.data import DataLoader, TensorDataset

def slow(module, name):
    "A disk on which everything takes a while, so that kills meet it at work."
    original = getattr(module, name)
    def slowed(*args, **options):
        time.sleep(SLOW_S * chance.random())
        result = original(*args, **options)
        time.sleep(SLOW_S * chance.random())
        return result
    setattr(module, name, slowed)

clock, hours_back = time.time, CLOCK_BACK_H * (run._attempt.number - 1)
time.time = lambda: clock() - 3600 * hours_back

chance = random.Random(os.getpid())
for module, name in ((os, "write"), (os, "fsync"), (os, "rename"), (os, "unlink"), (os, "replace"), (torch, "save")):
    slow(module, name)

model = torch.nn.Sequential(
    torch.nn.Linear(4, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.2), torch.nn.ReLU(), torch.nn.Linear(16, 1)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 60)
inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=4, shuffle=True)
model, optimizer, scheduler, loader = run.prepare(model, optimizer, scheduler, loader)
average = run.register("average", torch.optim.swa_utils.AveragedModel(run.accelerator.unwrap_model(model)))
for given, wanted in run.batches(loader, epochs=EPOCHS):
    noise = random.random() + numpy.random.rand()
    run.step(torch.nn.functional.mse_loss(model(given + 0.01 * noise), wanted))
    run.log(noise=noise)
    if run.accelerator.sync_gradients:
        average.update_parameters(run.accelerator.unwrap_model(model))
    time.sleep(0.002)
weights = [*run.accelerator.unwrap_model(model).state_dict().values(), *average.state_dict().values()]
"""
KINDS = ("worker", "supervisor", "both", "all", "pause and kill")
_LONGEST_S = 60.0


@dataclass
class Tally:
    """What was done to the runs, and what didn't come out as it should."""

    kills: Counter[str] = field(default_factory=Counter)
    during_write: int = 0
    """Kills while a checkpoint was being written or an old one removed."""
    runs: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def num_kills(self) -> int:
        return self.kills.total()


def begin(epochs: int, slow_s: float, nproc: int = 2, clock_back_h: float = 0.0, **options: Any) -> Run:
    """A run that writes a checkpoint at every step, on a disk that is slow by up to twice `slow_s` a call.

    `clock_back_h`: by how many hours its workers' clock is set back between two attempts.
    """
    names = {"EPOCHS": epochs, "SLOW_S": slow_s, "CLOCK_BACK_H": clock_back_h, "__name__": "__main__"}
    settings: dict[str, Any] = {"nproc": nproc, "accumulate": 2, "checkpoint_every": "1steps", "keep": 2, **options}
    return start(CELL, names, outputs=("weights",), **settings)


def owner_of(run: Run) -> psutil.Process | None:
    """The process that holds the run's lock: its supervisor."""
    try:
        inode = str(os.stat(run.paths.owner_lock).st_ino)
    except FileNotFoundError:  # it is only just starting
        return None
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode:
            with contextlib.suppress(psutil.NoSuchProcess, ValueError):
                return psutil.Process(int(fields[4]))
    return None


def kill(run: Run, kind: str, chance: random.Random) -> bool:
    """Kill some of the run's processes; False when there was none of them."""
    owner = owner_of(run)
    if owner is None:
        return False
    with contextlib.suppress(psutil.NoSuchProcess):
        workers = owner.children()
        if kind == "pause and kill":
            run.pause()
            time.sleep(chance.uniform(0, 0.1))
        doomed = {
            "worker": [chance.choice(workers)] if workers else [],
            "supervisor": [owner],
            "both": [owner, chance.choice(workers)] if workers else [owner],
            "all": [owner, *workers],
            "pause and kill": [owner, *workers[:1]],
        }[kind]
        for process in doomed:
            process.send_signal(signal.SIGKILL)
        return bool(doomed)
    return False


def is_writing(run: Run) -> bool:
    """Whether a checkpoint is half written, or half removed."""
    with contextlib.suppress(OSError):
        folders = [folder for folder in run.paths.checkpoints.iterdir() if folder.is_dir()]
        return any(not (folder / "manifest.json").exists() for folder in folders)
    return False


def wait_at_rest(run: Run) -> bool:
    deadline = time.monotonic() + _LONGEST_S
    while not run.is_at_rest:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def torment(
    run: Run, chance: random.Random, tally: Tally, most: int, harm: Callable[[Run], None] | None = None
) -> None:
    """Kill the run `most` times, or until it has finished; each time let it go on. `harm` is done while it rests."""
    tally.runs += 1
    kills = 0
    while not (run.is_at_rest and run.state is State.FINISHED):
        if kills < most:
            time.sleep(chance.uniform(0.0, 1.2))
            kind = chance.choice(KINDS)
            writes = is_writing(run)
            if kill(run, kind, chance):
                kills += 1
                tally.kills[kind] += 1
                tally.during_write += writes
        if not wait_at_rest(run):
            tally.wrong.append(f"{run.id} never came to rest ({run.shown_state}: {run.reason})")
            run.stop()
            return
        if run.state is State.FINISHED:
            return
        if kills >= most and run.state is State.FAILED and "kill" not in run.reason and "lost" not in run.reason:
            tally.wrong.append(f"{run.id} failed: {run.reason}")
            return
        if harm is not None:
            harm(run)
        run.resume()


def compare(run: Run, straight: Run, tally: Tally) -> None:
    """Note every number that isn't the same, to the bit, as that of the run that nothing happened to."""
    if run.state is not State.FINISHED:
        return
    for name in ("loss", "learning_rate", "noise"):
        mine, theirs = run.metrics[name].tolist(), straight.metrics[name].tolist()
        if mine != theirs:
            at = next((i for i, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1]), "the end")
            tally.wrong.append(f"{run.id}: {name} has {len(mine)} of {len(theirs)} values, differs from {at} on")
    weights, expected = run.outputs()["weights"], straight.outputs()["weights"]
    if not all(torch.equal(one, other) for one, other in zip(weights, expected, strict=True)):
        tally.wrong.append(f"{run.id}: the weights differ")
