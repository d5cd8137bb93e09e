"""Launch latency: from submitting a cell to user code running on both ranks with the process group up.

    python benchmarks/launch.py [--repeat 10]

Peers, all in one run and in turn: `accelerate.notebook_launcher`, nbdistributed (its ranks are started once by
`%dist_init`, which is timed apart), and `accelerate launch` of a script. jtrain and the notebook peers run in fresh
kernels that have imported torch. The user code is the same everywhere: make an Accelerator, wait for everyone, and
write the time to a file. Prints medians in seconds and ratios to `notebook_launcher`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

USER_CODE = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
accelerator.wait_for_everyone()
import os, pathlib, time
pathlib.Path({folder!r}, os.environ["RANK"]).write_text(repr(time.time()))
"""
NUM_RANKS = 2


@contextlib.contextmanager
def kernel(*setup: str) -> Iterator[BlockingKernelClient]:
    """A fresh kernel that has run `setup`."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env={**os.environ, "OMP_NUM_THREADS": "1"})
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        for cell in ("import torch, accelerate", *setup):
            execute(client, cell)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def execute(client: BlockingKernelClient, cell: str) -> None:
    """Run a cell to its end. Raises RuntimeError with its traceback when it fails."""
    reply = client.execute_interactive(cell, timeout=30, output_hook=lambda _: None, allow_stdin=False)
    if reply["content"]["status"] != "ok":
        raise RuntimeError("\n".join(reply["content"]["traceback"]))


def free_port() -> int:
    """A port for the peers, which can't let the system choose one."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def latency(launch: Callable[[Path], object]) -> float:
    """Seconds from the call of `launch` until the later rank has written its time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.time()
        launch(folder)
        deadline = time.time() + 60
        files = [folder / str(rank) for rank in range(NUM_RANKS)]
        while not all(file.exists() and file.read_text() for file in files):
            if time.time() > deadline:
                raise TimeoutError("the ranks did not start")
            time.sleep(0.002)
        return max(float(file.read_text()) for file in files) - start


def time_jtrain(repeat: int) -> list[float]:
    """A `%%jtrain` cell; the first figure is the first run of the kernel."""
    with kernel("%load_ext jtrain") as client:
        time.sleep(4)  # as long as a person needs to get to the training cell

        def launch(folder: Path) -> None:
            execute(client, f"%%jtrain --nproc {NUM_RANKS} --gpus none\n" + USER_CODE.format(folder=str(folder)))

        return [latency(launch) for _ in range(repeat)]


def time_notebook_launcher(repeat: int) -> list[float]:
    """`notebook_launcher` with a function defined in the notebook."""
    with kernel("from accelerate import notebook_launcher") as client:

        def launch(folder: Path) -> None:
            body = "\n    ".join(USER_CODE.format(folder=str(folder)).splitlines())
            call = f"notebook_launcher(train, num_processes={NUM_RANKS}, use_port='{free_port()}')"
            execute(client, f"def train():\n    {body}\n{call}")

        return [latency(launch) for _ in range(repeat)]


def time_patiently(measure: Callable[[int], list[float]], repeat: int) -> list[float]:
    """`measure(repeat)`, begun anew in another kernel when a launch hangs, which forking a kernel with threads may."""
    for _ in range(5):
        try:
            return measure(repeat)
        except TimeoutError:
            print(f"({measure.__name__}: a launch hung for 30 s; begun anew in another kernel)", flush=True)
    raise TimeoutError(f"{measure.__name__}: a launch hung in each of five kernels")


def time_nbdistributed(repeat: int) -> tuple[float, list[float]]:
    """`%dist_init` once, then cells on its ranks."""
    with kernel("%load_ext nbdistributed") as client:
        start = time.time()
        execute(client, f"%dist_init --num-processes {NUM_RANKS}")
        init = time.time() - start

        def launch(folder: Path) -> None:
            execute(client, "%%distributed\n" + USER_CODE.format(folder=str(folder)))

        times = [latency(launch) for _ in range(repeat)]
        execute(client, "%dist_shutdown")
        return init, times


def time_accelerate_launch(repeat: int) -> list[float]:
    """`accelerate launch` of a script, from the shell."""

    def launch(folder: Path) -> None:
        script = folder / "script.py"
        script.write_text(USER_CODE.format(folder=str(folder)))
        command = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", str(NUM_RANKS)]
        subprocess.run(
            [*command, "--main_process_port", str(free_port()), str(script)],
            check=True,
            capture_output=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"},
        )

    return [latency(launch) for _ in range(repeat)]


def report(name: str, first: float, later: list[float], peer: tuple[float, float]) -> None:
    median = statistics.median(later)
    spread = f"{min(later):.3f} to {max(later):.3f}"
    print(
        f"{name:28} first {first:6.3f} s ({first / peer[0]:5.2f} x)   "
        f"later {median:6.3f} s ({median / peer[1]:5.2f} x)   {spread}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=10, help="launches in one kernel (the first is told apart)")
    parser.add_argument(
        "--kernels", type=int, default=3, help="fresh kernels for jtrain and notebook_launcher, in turn"
    )
    parser.add_argument("--skip-slow", action="store_true", help="leave out accelerate launch and nbdistributed")
    arguments = parser.parse_args()
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"JTRAIN_HOME": home, "JTRAIN_MACHINE_DIR": f"{home}/machine"}
        for _ in range(arguments.kernels):
            theirs.append(time_patiently(time_notebook_launcher, arguments.repeat))
            ours.append(time_jtrain(arguments.repeat))
    peer_first = statistics.median(times[0] for times in theirs)
    peer_later = [seconds for times in theirs for seconds in times[1:]]
    peer = (peer_first, statistics.median(peer_later))
    print(f"From the cell to {NUM_RANKS} ranks on the CPU with the process group up; ratios to notebook_launcher")
    report("accelerate.notebook_launcher", peer_first, peer_later, peer)
    first = statistics.median(times[0] for times in ours)
    report("jtrain", first, [seconds for times in ours for seconds in times[1:]], peer)
    if not arguments.skip_slow:
        with contextlib.suppress(ModuleNotFoundError):
            init, times = time_nbdistributed(arguments.repeat)
            report("nbdistributed", init + times[0], times[1:], peer)
        times = time_accelerate_launch(max(3, arguments.repeat // 3))
        report("accelerate launch (script)", times[0], times[1:], peer)


if __name__ == "__main__":
    main()
