"""Training throughput of the same loop under jtrain and under torchrun, on 2 CPU ranks.

    python benchmarks/throughput.py [--pairs 7] [--steps 400]

Three ways take turns, each as a run of its own: an Accelerate script under `torchrun`; the same file, unchanged, under
`jtrain run`; and the same training written with `run.batches` and `run.step`, which also logs every step. Each times
its own loop, after a warm-up and between two barriers, so that start-up doesn't count. Prints the samples per second
of every run, and jtrain's throughput as a multiple of torchrun's: the ratio of the medians, and the median of the
ratios within each pair, which a machine that slows down and recovers disturbs less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jtrain
from jtrain.options import make_options

RANKS, BATCH, WARMUP = 2, 64, 50

COMMON = f"""
import json, os, sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def make(steps):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    count = steps * {BATCH} * {RANKS}
    data = TensorDataset(torch.randn(4096, 256).repeat(count // 4096 + 1, 1)[:count], torch.randint(10, (count,)))
    return model, torch.optim.AdamW(model.parameters()), DataLoader(data, batch_size={BATCH}, shuffle=True)

def note(path, accelerator, steps, started):
    accelerator.wait_for_everyone()
    seconds = time.perf_counter() - started
    if accelerator.is_main_process:
        with open(path, "w") as file:
            json.dump((steps - {WARMUP}) * {BATCH} * {RANKS} / seconds, file)
"""

SCRIPT = (
    COMMON
    + f"""
from accelerate import Accelerator

path, steps = sys.argv[1], int(sys.argv[2])
accelerator = Accelerator(cpu=True)
model, optimizer, loader = accelerator.prepare(*make(steps))
for step, (inputs, targets) in enumerate(loader):
    if step == {WARMUP}:
        accelerator.wait_for_everyone()
        started = time.perf_counter()
    loss = nn.functional.cross_entropy(model(inputs), targets)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
note(path, accelerator, steps, started)
accelerator.end_training()  # or gloo's threads now and then abort a rank at its end
"""
)

CELL = (
    COMMON
    + f"""
path, steps = sys.argv[1], int(sys.argv[2])
model, optimizer, loader = run.prepare(*make(steps))
for step, (inputs, targets) in enumerate(run.batches(loader)):
    if step == {WARMUP}:
        run.accelerator.wait_for_everyone()
        started = time.perf_counter()
    run.step(nn.functional.cross_entropy(model(inputs), targets))
note(path, run.accelerator, steps, started)
"""
)


def under_torchrun(folder: Path, steps: int) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    subprocess.run([*command, "script.py", "speed.json", str(steps)], cwd=folder, check=True, timeout=600)


def under_jtrain(name: str) -> Callable[[Path, int], None]:
    def train(folder: Path, steps: int) -> None:
        options = make_options(nproc=RANKS, gpus="none")
        run = jtrain.launch_script(folder / name, (str(folder / "speed.json"), str(steps)), options)
        run.result(timeout=600)

    return train


WAYS: dict[str, Callable[[Path, int], None]] = {
    "torchrun": under_torchrun,
    "jtrain, the same script": under_jtrain("script.py"),
    "jtrain, run.batches and run.step": under_jtrain("cell.py"),
}


def measure(pairs: int, steps: int) -> dict[str, list[float]]:
    """Samples per second of each way in each round."""
    speeds: dict[str, list[float]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "script.py").write_text(SCRIPT)
        (folder / "cell.py").write_text(CELL)
        os.environ.setdefault("JTRAIN_HOME", str(folder / "store"))
        for round_index in range(pairs):
            # Turn about, so that no way is always the one after the same other.
            order = list(WAYS) if round_index % 2 == 0 else list(reversed(WAYS))
            for way in order:
                WAYS[way](folder, steps)
                speeds[way].append(json.loads((folder / "speed.json").read_text()))
                print(f"{round_index + 1}/{pairs}  {way:34}{speeds[way][-1]:10.0f} samples/s", flush=True)
    return speeds


def summarize(speeds: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """Median speed of each way, and its ratios to torchrun."""
    base = speeds["torchrun"]
    return {
        name: {
            "median": statistics.median(found),
            "ratio_of_medians": statistics.median(found) / statistics.median(base),
            "median_of_ratios": statistics.median(one / other for one, other in zip(found, base, strict=True)),
        }
        for name, found in speeds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, help="rounds, each with one run of every way")
    parser.add_argument("--steps", type=int, default=400, help=f"training steps of a run, of which {WARMUP} warm up")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    speeds = measure(arguments.pairs, arguments.steps)
    summary = summarize(speeds)
    print(f"\n{'':34}{'median/s':>10}{'ratio of medians':>18}{'median of ratios':>18}")
    for name, row in summary.items():
        print(f"{name:34}{row['median']:10.0f}{row['ratio_of_medians']:18.3f}{row['median_of_ratios']:18.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"speeds": speeds, "summary": summary}, indent=1))


if __name__ == "__main__":
    main()
