"""The helper process: one thread, one kernel, and runs that outlive both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from jtrain.domain.states import State
from jtrain.engine import zygote
from jtrain.run import Run
from tests.cells import train
from tests.engine.test_runs_end_to_end import until

KERNEL = """
import sys, time
sys.path.insert(0, {root!r})
from jtrain.engine import zygote
from tests.cells import train
zygote.start_for_kernel()
run = train(epochs=500, pause_s=0.01)
print(run.id, zygote.helper_pid(), flush=True)
time.sleep(300)
"""
ROOT = str(Path(__file__).parents[2])


def start_kernel() -> tuple[subprocess.Popen[str], str, psutil.Process]:
    kernel = subprocess.Popen([sys.executable, "-c", KERNEL.format(root=ROOT)], stdout=subprocess.PIPE, text=True)
    assert kernel.stdout is not None
    run_id, pid = kernel.stdout.readline().split()
    return kernel, run_id, psutil.Process(int(pid))


def test_a_killed_kernel_takes_the_helper_along_but_not_the_run() -> None:
    kernel, run_id, helper = start_kernel()
    run = Run(run_id)
    until(lambda: run.progress.step >= 2)
    assert helper.num_threads() == 1
    kernel.kill()
    kernel.wait()
    until(lambda: not helper.is_running() or helper.status() == psutil.STATUS_ZOMBIE)
    step = run.progress.step
    until(lambda: run.progress.step > step)
    assert run.state is State.RUNNING
    run.stop()
    assert run.wait(timeout=30) is State.STOPPED


def test_an_interrupt_of_the_kernels_group_reaches_neither_helper_nor_run() -> None:
    kernel, run_id, helper = start_kernel()
    run = Run(run_id)
    until(lambda: run.progress.step >= 2)
    for process in (helper, *helper.children(recursive=True)):
        assert os.getpgid(process.pid) != os.getpgid(kernel.pid)
    kernel.kill()
    kernel.wait()
    run.stop()
    run.wait(timeout=30)


def test_a_dead_helper_costs_speed_but_not_the_run() -> None:
    helper = zygote.helper_pid()
    assert helper is not None
    os.kill(helper, signal.SIGKILL)
    time.sleep(0.05)
    try:
        assert train(epochs=1).wait(timeout=60) is State.FINISHED
    finally:
        zygote.start_for_kernel()


def test_a_file_named_like_a_library_in_the_working_folder_breaks_nothing(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "queue.py").write_text("raise RuntimeError('the wrong queue')")
    (tmp_path / "torch.py").write_text("raise RuntimeError('the wrong torch')")
    monkeypatch.chdir(tmp_path)
    zygote.close_for_kernel()
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    zygote.start_for_kernel()
    assert zygote._zygote is not None
    assert zygote._zygote._receive() == {"ready": True}
    zygote.close_for_kernel()
    zygote.start_for_kernel()
