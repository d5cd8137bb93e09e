"""What a checkpoint costs: beside a copy in memory, Accelerate's save_state and torch's asynchronous saving.

    python benchmarks/checkpoint.py [--megabytes 1500] [--rounds 3] [--ranks 1,2] [--train-s 90]

A model of a few large layers with AdamW in fp32, `--megabytes` in all, is trained for a step under jtrain. Then, in
turns and in one process: a copy of the state into memory that is reused, `dcp.async_save` with a stager that is kept,
`Accelerator.save_state`, a plain write and fsync of as many bytes, and `run.checkpoint()`: how long the loop stands
still, and how long it takes to be complete. Then the run is resumed, and the time from launch to the restored state is
compared with the start of a fresh run and a plain read of the bytes. Last, the throughput of training with a checkpoint
every 30 s and without. The bounds are those that jtrain holds itself to.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from typing import Any

import jtrain

CELL = """
import contextlib, io, os, shutil, statistics, time, warnings
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.utils.data import DataLoader, TensorDataset

WIDTH = 2048
LAYERS = max(1, MEGABYTES * 1_000_000 // (12 * WIDTH * WIDTH))
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
data = torch.randn(64, WIDTH)
loader = DataLoader(TensorDataset(data), batch_size=4)
model, optimizer, loader = run.prepare(model, optimizer, loader)
accelerator = run.accelerator

def train_for(seconds):
    "Steps per second."
    steps, began = 0, time.perf_counter()
    for (batch,) in run.batches(loader, epochs=10_000):
        run.step(model(batch).pow(2).mean())
        steps += 1
        if steps == 1:
            began = time.perf_counter()
        # All ranks leave at the same step.
        leave = torch.tensor([time.perf_counter() - began > seconds], dtype=torch.float32)
        if run.world_size > 1:
            torch.distributed.broadcast(leave, 0)
        if leave.item():
            break
    return (steps - 1) / (time.perf_counter() - began)
"""

COSTS = """
def tensors_of(tree):
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from tensors_of(item)

def state():
    bare = accelerator.unwrap_model(model)
    return {"model": bare.state_dict(), "optimizer": optimizer.state_dict()["state"]}

def peak_extra(action):
    "Bytes at the most in memory above what there was before; anonymous and file pages that are mapped."
    def status(key):
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))
    before = status("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    action()
    return status("VmHWM") - before

train_for(0.0)
folder = FOLDER
size = sum(tensor.nbytes for tensor in tensors_of(state()))
copies = [torch.zeros_like(tensor) for tensor in tensors_of(state())]
costs = {name: [] for name in ("copy", "dcp", "save_state", "write", "blocked", "complete", "read")}

@contextlib.contextmanager
def timed(name):
    accelerator.wait_for_everyone()
    began = time.perf_counter()
    yield
    costs[name].append(time.perf_counter() - began)

def copy():
    for tensor, target in zip(tensors_of(state()), copies, strict=True):
        target.copy_(tensor)

def write():
    with open(f"{folder}/plain", "wb", buffering=0) as file:
        for tensor in copies:
            view = memoryview(tensor.view(-1).view(torch.uint8).numpy())
            for at in range(0, len(view), 8 << 20):
                file.write(view[at : at + (8 << 20)])
        os.fsync(file.fileno())

def read():
    sink = memoryview(copies[0].view(-1).view(torch.uint8).numpy())
    with open(f"{folder}/plain", "rb", buffering=0) as file:
        while file.readinto(sink):
            pass

stager = DefaultStager(StagingOptions(use_pinned_memory=False, use_shared_memory=False, use_async_staging=False,
                                      use_non_blocking_copy=False))
group = torch.distributed.new_group(backend="gloo") if run.world_size > 1 else None
extra = peak_extra(lambda: run.checkpoint(wait=True))
if run.rank == 0:
    copy()
run.checkpoint(wait=True)
for number in range(ROUNDS):
    if run.rank == 0:
        copy()
    with timed("copy"):
        if run.rank == 0:
            copy()
    with timed("write"):
        if run.rank == 0:
            write()
    with timed("read"):
        if run.rank == 0:
            read()
    with timed("blocked"):
        run.checkpoint()
    run.saver.drain()
    with timed("complete"):
        run.checkpoint(wait=True)
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        with timed("dcp"):
            future = dcp.async_save(state(), checkpoint_id=f"{folder}/dcp-{number}", async_stager=stager,
                                    process_group=group)
        getattr(future, "upload_completion", future).result()
    accelerator.wait_for_everyone()
    with timed("save_state"):
        accelerator.save_state(f"{folder}/accelerate-{number}")
    accelerator.wait_for_everyone()
    if run.rank == 0:
        shutil.rmtree(f"{folder}/dcp-{number}")
        shutil.rmtree(f"{folder}/accelerate-{number}")
run.checkpoint(wait=True)
costs.update(size=size, extra=extra)
"""

FRESH = "\nready = time.time()\n"
RESUMED = "\ntrain_for(0.0)\nname = run.checkpoint()\nready = time.time()\n"
TRAIN = "\ntrain_for(3.0)\nrate = train_for(TRAIN_S)\n"


def _run(source: str, ranks: int, outputs: str, **options: Any) -> Any:
    run = jtrain.launch(_execute, source, options.pop("variables", {}), nproc=ranks, gpus="none", seed=0, **options)
    return run, run.result(timeout=1800)


def _execute(source: str, variables: dict[str, Any], run: Any) -> Any:
    namespace = {"run": run, "__name__": "__main__", **variables}
    exec(source, namespace)
    return {name: namespace[name] for name in ("costs", "ready", "rate") if name in namespace}


def measure(ranks: int, megabytes: int, rounds: int, train_s: float, folder: str) -> bool:
    """Print everything for `ranks` ranks; whether all bounds hold."""
    import time

    variables = {"MEGABYTES": megabytes, "ROUNDS": rounds, "FOLDER": folder, "TRAIN_S": train_s}
    first, found = _run(CELL + COSTS, ranks, "costs", variables=variables, keep=1, checkpoint_every="1h")
    costs = found["costs"]
    took = {name: statistics.median(values) for name, values in costs.items() if isinstance(values, list)}
    print(f"\n{ranks} rank(s), {costs['size'] / 1e6:.0f} MB of state, medians of {rounds} rounds in seconds")
    for name, values in costs.items():
        if isinstance(values, list):
            print(f"  {name:<11}{statistics.median(values):8.3f}   ({', '.join(f'{value:.3f}' for value in values)})")

    def start(**options: Any) -> float:
        began = time.time()
        source = CELL + (RESUMED if "resume" in options else FRESH)
        return float(_run(source, ranks, "ready", variables=variables, **options)[1]["ready"]) - began

    fresh = statistics.median(start() for _ in range(rounds))
    resumed = statistics.median(start(resume=first.id) for _ in range(rounds))
    print(
        f"  fresh      {fresh:8.3f}   launch to a prepared model\n"
        f"  resumed    {resumed:8.3f}   launch to a restored one"
    )
    bounds = [
        ("loop blocked / a copy in memory", took["blocked"] / took["copy"], 1.3),
        ("loop blocked / Accelerator.save_state", took["blocked"] / took["save_state"], 0.1),
        ("loop blocked / dcp.async_save with a kept stager", took["blocked"] / took["dcp"], 1.0),
        ("complete / plain write and fsync", took["complete"] / took["write"], 1.2),
        ("peak extra memory / state", costs["extra"] / costs["size"], 1.1),
        ("resumed / (fresh start + plain read)", resumed / (fresh + took["read"]), 1.5),
    ]
    if train_s:
        rates = [
            [
                _run(CELL + TRAIN, ranks, "rate", variables=variables, keep=1, **options)[1]["rate"]
                for options in ({}, {"checkpoint_every": "30s"})
            ]
            for _ in range(rounds)
        ]
        print(f"  steps/s without and with a checkpoint every 30 s: {', '.join(f'{a:.3f} {b:.3f}' for a, b in rates)}")
        lost = 1 - statistics.median(b / a for a, b in rates)
        bounds.append(("throughput lost to a checkpoint every 30 s", lost, 0.02))
    for name, value, bound in bounds:
        print(f"  {name:<50}{value:7.3f}   bound {bound:5.2f}   {'ok' if value <= bound else 'NOT MET'}")
    return all(value <= bound for _, value, bound in bounds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1500, help="of parameters and AdamW's two moments")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--train-s", type=float, default=90.0, help="seconds of training for each throughput; 0: none")
    parser.add_argument("--folder", default=None, help="where everything is written (default: the temporary folder)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="jtrain-bench-", dir=arguments.folder) as folder:
        os.environ.update(JTRAIN_HOME=f"{folder}/home", JTRAIN_MACHINE_DIR=f"{folder}/machine")
        results = [
            measure(int(ranks), arguments.megabytes, arguments.rounds, arguments.train_s, folder)
            for ranks in arguments.ranks.split(",")
        ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
