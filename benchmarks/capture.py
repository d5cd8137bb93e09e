"""What capturing big data costs: beside one plain write of the same bytes, and in memory.

    python benchmarks/capture.py [--mebibytes 1024] [--rounds 5]

A process plays the kernel: it holds an array (NumPy, then torch) and, in turns, writes its bytes plainly to a file and
captures it; the disk is synced before each. The table shows medians in seconds, and the median of the ratios of pairs.
Then two processes play workers and map what was captured, and once more read all of it.

Memory in MiB, each above what the process had before: the kernel's peak while it captures; what the workers have for
themselves; and their whole memory when pages that they share (the disk's cache of the data) count once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

MIB = 1 << 20
_CHUNK = 16 * MIB


def make_data(kind: str, size: int) -> Any:
    """An array of `size` bytes that aren't zeros, of which nothing is in the disk's cache."""
    import numpy

    array = numpy.arange(size // 8, dtype=numpy.int64)
    if kind == "numpy":
        return array
    import torch

    return torch.from_numpy(array).clone()


def write_plainly(data: Any, path: Path) -> None:
    """One write of the bytes, from where they are."""
    view = memoryview(data.numpy() if hasattr(data, "numpy") else data).cast("B")
    with open(path, "wb", buffering=0) as file:
        for start in range(0, len(view), _CHUNK):
            file.write(view[start : start + _CHUNK])


def timed(action: Callable[[], object]) -> float:
    """Seconds of an action that starts with nothing left to be written to the disk."""
    os.sync()
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def reset_peak() -> int:
    """Forget the peak of this process's memory; returns what it has now, in bytes (Linux: proc(5), clear_refs)."""
    Path("/proc/self/clear_refs").write_text("5")
    return psutil.Process().memory_info().rss


def peak() -> int:
    """The most memory in bytes that this process had since `reset_peak`."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024


def be_kernel(kind: str, size: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Capture and write in turns; leaves the last payload for the workers."""
    from jtrain.capture.pack import pack

    namespace, payload = {"data": make_data(kind, size), "__name__": "__main__"}, folder / "payload"
    seconds: dict[str, list[float]] = {"plain": [], "capture": []}
    ways = {
        "plain": lambda: write_plainly(namespace["data"], folder / "plain"),
        "capture": lambda: pack(namespace, {"data": 1}, payload),
    }
    extra = []
    for round_index in range(-1, rounds):  # one to warm up: imports, memory of the disk's cache
        for name in sorted(ways, reverse=bool(round_index % 2)):
            shutil.rmtree(payload, ignore_errors=True)
            (folder / "plain").unlink(missing_ok=True)
            before = reset_peak()
            took = timed(ways[name])
            if round_index >= 0:
                seconds[name].append(took)
                extra += [peak() - before] if name == "capture" else []
    if not payload.exists():
        ways["capture"]()
    return {"plain_s": seconds["plain"], "capture_s": seconds["capture"], "kernel_extra_bytes": max(extra)}


def own_bytes() -> int:
    """Memory of this process that is not a file's."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0]) * 1024


def be_worker(folder: Path) -> None:
    """Map the payload, then read all of it; print what each took, when the other worker has done the same."""
    import torch  # noqa: F401 - a worker has it

    from jtrain.capture.unpack import unpack

    process = psutil.Process()
    own, shared = own_bytes(), process.memory_full_info().pss
    start = time.perf_counter()
    data = unpack(folder / "payload", vars(sys.modules["__main__"])).values["data"]
    figures = {"unpack_s": time.perf_counter() - start, "mapped_bytes": own_bytes() - own, "sum": int(data.sum())}
    print("read it", flush=True)
    sys.stdin.readline()
    figures["read_bytes"] = own_bytes() - own
    figures["read_shared_bytes"] = process.memory_full_info().pss - shared
    print(json.dumps(figures), flush=True)
    sys.stdin.readline()


def run_workers(folder: Path, count: int = 2) -> list[dict[str, Any]]:
    """Workers at the same time, on the payload in `folder`."""
    command = [sys.executable, __file__, "--role", "worker", "--folder", str(folder)]
    with ExitStack() as running:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        workers = [running.enter_context(subprocess.Popen(command, **pipes)) for _ in range(count)]
        assert [worker.stdout.readline() for worker in workers] == ["read it\n"] * count  # type: ignore[union-attr]
        for worker in workers:
            print(file=worker.stdin, flush=True)
        return [json.loads(worker.stdout.readline()) for worker in workers]  # type: ignore[union-attr]


def measure(kind: str, size: int, rounds: int) -> dict[str, Any]:
    """All figures for one kind of array."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("JTRAIN_HOME")) as name:
        arguments = ["--kind", kind, "--bytes", str(size), "--rounds", str(rounds), "--folder", name]
        command = [sys.executable, __file__, "--role", "kernel", *arguments]
        kernel = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
        workers = run_workers(Path(name))
    ratios = [mine / plain for mine, plain in zip(kernel["capture_s"], kernel["plain_s"], strict=True)]
    return {
        "plain_s": statistics.median(kernel["plain_s"]),
        "capture_s": statistics.median(kernel["capture_s"]),
        "ratio": statistics.median(ratios),
        "unpack_ms": 1000 * max(worker["unpack_s"] for worker in workers),
        "kernel_extra_mib": kernel["kernel_extra_bytes"] / MIB,
        "mapped_extra_mib": sum(worker["mapped_bytes"] for worker in workers) / MIB,
        "read_extra_mib": sum(worker["read_bytes"] for worker in workers) / MIB,
        "read_shared_mib": sum(worker["read_shared_bytes"] for worker in workers) / MIB,
    }


_ROWS = {
    "plain_s": "one plain write, s",
    "capture_s": "capture, s",
    "ratio": "capture / plain write",
    "unpack_ms": "mapping in a worker, ms",
    "kernel_extra_mib": "peak extra memory: kernel, MiB",
    "mapped_extra_mib": "two workers that have mapped it: own, MiB",
    "read_extra_mib": "two workers that have read it all: own, MiB",
    "read_shared_mib": "the same with the disk's cache of it, once, MiB",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    for hidden in ("--role", "--kind", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role == "kernel":
        folder = Path(arguments.folder)
        print(json.dumps(be_kernel(arguments.kind, arguments.bytes, arguments.rounds, folder)))
    elif arguments.role == "worker":
        be_worker(Path(arguments.folder))
    else:
        figures = {kind: measure(kind, arguments.mebibytes * MIB, arguments.rounds) for kind in ("numpy", "torch")}
        print(f"{arguments.mebibytes} MiB{'':46}{'numpy':>10}{'torch':>10}")
        for key, label in _ROWS.items():
            print(f"{label:54}" + "".join(f"{figures[kind][key]:10.2f}" for kind in figures))
        if arguments.json:
            arguments.json.write_text(json.dumps({"mebibytes": arguments.mebibytes, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
