"""What one logged value costs the training loop: `run.log` beside Accelerate and TensorBoard, in one process.

    python benchmarks/log.py [--calls 20000] [--rounds 5]

All is measured inside a worker of a real run. Every way logs a float under one name with a growing step. The ways take
turns, round after round, so that a busy machine slows all of them; each call is timed on its own, less what reading the
clock costs. The table shows the median and the 99th percentile over all rounds, in microseconds, and the median as a
multiple of `run.log`'s.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import torch
from accelerate import Accelerator
from torch.utils.tensorboard import SummaryWriter

import jtrain
from jtrain.worker.handle import WorkerRun

Log = Callable[[int], object]


def time_calls(log: Log, first_step: int, calls: int) -> list[int]:
    """Nanoseconds of each of `calls` calls."""
    clock = time.perf_counter_ns
    durations = []
    for step in range(first_step, first_step + calls):
        started = clock()
        log(step)
        durations.append(clock() - started)
    return durations


def make_ways(run: WorkerRun, folder: Path, closing: ExitStack) -> dict[str, Log]:
    """Each way to log, by name."""
    writer = SummaryWriter(str(folder / "tensorboard"))
    closing.callback(writer.close)
    silent = Accelerator()
    silent.init_trackers("silent")
    tracked = Accelerator(log_with="tensorboard", project_dir=str(folder / "accelerate"))
    tracked.init_trackers("tracked")
    ours = Accelerator(log_with="jtrain")
    ours.init_trackers("ours")
    closing.callback(tracked.end_training)
    tensor = torch.tensor(0.5)
    return {
        "nothing (the clock itself)": lambda step: None,
        "jtrain run.log, float": lambda step: run.log(loss=0.5, step=step),
        "jtrain run.log, CPU tensor": lambda step: run.log(loss=tensor, step=step),
        "accelerator.log to jtrain": lambda step: ours.log({"loss": 0.5}, step=step),
        "accelerator.log without tracker": lambda step: silent.log({"loss": 0.5}, step=step),
        "TensorBoard add_scalar": lambda step: writer.add_scalar("loss", 0.5, step),
        "accelerator.log to TensorBoard": lambda step: tracked.log({"loss": 0.5}, step=step),
    }


def measure(run: WorkerRun, calls: int, rounds: int) -> dict[str, dict[str, float]]:
    """Median and 99th percentile in microseconds of each way, less the clock's own median."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as closing:
        ways = make_ways(run, Path(folder), closing)
        durations: dict[str, list[int]] = {name: [] for name in ways}
        for log in ways.values():  # warm up: imports, first files, threads
            time_calls(log, 0, calls // 10)
        for round_index in range(1, rounds + 1):
            for name, log in ways.items():
                durations[name] += time_calls(log, round_index * calls, calls)
    clock_ns = statistics.median(durations.pop("nothing (the clock itself)"))
    return {name: _figures(found, clock_ns) for name, found in durations.items()}


def _figures(durations: list[int], clock_ns: float) -> dict[str, float]:
    ordered = sorted(durations)
    return {
        "median_us": (statistics.median(ordered) - clock_ns) / 1000,
        "p99_us": (ordered[int(len(ordered) * 0.99)] - clock_ns) / 1000,
        "mean_us": (statistics.fmean(ordered) - clock_ns) / 1000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000, help="calls of each way in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    options = {"calls": arguments.calls, "rounds": arguments.rounds}
    with tempfile.TemporaryDirectory() as store:
        os.environ.setdefault("JTRAIN_HOME", store)
        figures = jtrain.launch(measure, kwargs=options, nproc=1, gpus="none").result(timeout=900)
    base = figures["jtrain run.log, float"]["median_us"]
    print(f"{'':34}{'median µs':>11}{'p99 µs':>11}{'mean µs':>11}{'of run.log':>11}")
    for name, row in figures.items():
        ratio = row["median_us"] / base
        print(f"{name:34}{row['median_us']:11.2f}{row['p99_us']:11.2f}{row['mean_us']:11.2f}{ratio:11.1f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"cpus": os.cpu_count(), "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
