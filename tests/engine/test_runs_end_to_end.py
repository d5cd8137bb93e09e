"""Real runs: a detached supervisor, two forked ranks, gloo between them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import numpy as np
import psutil
import pytest

from jtrain.domain.states import State
from jtrain.errors import JtrainError, WorkerError
from jtrain.run import Run
from tests.cells import start, train

pytestmark = pytest.mark.timeout(90)


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def supervisor_of(run: Run) -> psutil.Process:
    """The process holding the run's lock, found through its open files."""
    for process in psutil.process_iter():
        try:
            if any(f"{run.id}/owner.lock" in file for file in _open_files(process)):
                return process
        except (psutil.Error, OSError):
            continue
    raise AssertionError("no supervisor")


def _open_files(process: psutil.Process) -> list[str]:
    folder = f"/proc/{process.pid}/fd"
    return [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]


def ranks_of(run: Run) -> list[psutil.Process]:
    return supervisor_of(run).children()


def test_a_cell_trains_on_two_ranks_and_gives_its_values_back() -> None:
    run = start(
        "import torch.distributed as dist\naccelerator = run.accelerator\n"
        "total = accelerator.reduce(__import__('torch').tensor([run.rank + base]), 'sum').item()",
        {"base": 10, "__name__": "__main__"},
        outputs=("total",),
    )
    assert run.result(timeout=60) == {"total": 21}
    assert [event.kind for event in run.events() if event.state] == ["queued", "starting", "running", "finished"]


def test_the_error_of_one_rank_is_told_once_and_frees_the_others_from_their_collective() -> None:
    run = start(
        "accelerator = run.accelerator\n"
        "if run.rank == 1:\n    raise ValueError('bad label')\n"
        "accelerator.wait_for_everyone()"
    )
    began = time.monotonic()
    assert run.wait(timeout=60) is State.FAILED
    assert time.monotonic() - began < 30
    error = run.error
    assert isinstance(error, WorkerError)
    assert (error.rank, error.type_name, error.message) == (1, "ValueError", "bad label")
    assert error.frames[-1]["line"] == 4
    with pytest.raises(WorkerError, match="bad label"):
        run.result()


@pytest.mark.parametrize(
    ("line", "state", "words"),
    [
        ("import sys; sys.exit(0)", State.FINISHED, ""),
        ("import sys; sys.exit(3)", State.FAILED, "exit code 3"),
        ("import os; os._exit(5)", State.FAILED, "exit code 5"),
        ("import os; os._exit(0)", State.FAILED, "exit code 0"),
        ("import os; os._exit(75)", State.FAILED, "exit code 75"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", State.FAILED, "SIGKILL"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", State.FAILED, "SIGSEGV"),
    ],
)
def test_an_end_without_an_exception_is_named_as_what_it_is(line: str, state: State, words: str) -> None:
    run = start(line, nproc=1)
    assert run.wait(timeout=60) is state
    assert words in run.reason


def test_a_paused_run_resumes_to_the_same_losses_to_the_bit() -> None:
    straight = train(epochs=4)
    broken = train(epochs=4, pause_s=0.02)
    until(lambda: broken.progress.step >= 5)
    broken.pause()
    assert broken.wait(timeout=60) is State.PAUSED
    assert broken.checkpoints()
    broken.resume()
    assert broken.wait(timeout=60) is State.FINISHED
    assert straight.wait(timeout=60) is State.FINISHED
    assert len(broken.attempts) == 2
    np.testing.assert_array_equal(broken.metrics["loss"], straight.metrics["loss"])


def test_a_stopped_run_leaves_no_process_and_can_go_on() -> None:
    run = train(epochs=500, pause_s=0.01)
    until(lambda: run.progress.step >= 2)
    ranks = ranks_of(run)
    run.stop()
    assert run.wait(timeout=30) is State.STOPPED
    assert not any(rank.is_running() for rank in ranks)


def test_a_killed_rank_fails_the_run_and_takes_the_others_along() -> None:
    run = train(epochs=500, pause_s=0.01)
    until(lambda: run.progress.step >= 2)
    ranks = ranks_of(run)
    ranks[-1].send_signal(signal.SIGKILL)
    assert run.wait(timeout=30) is State.FAILED
    assert "SIGKILL" in run.reason
    assert not any(rank.is_running() for rank in ranks)


def test_a_failed_run_restarts_from_its_checkpoint_when_it_may() -> None:
    run = train(epochs=30, pause_s=0.01, max_restarts=1, checkpoint_every="5steps")
    until(lambda: run.progress.step >= 12)
    ranks_of(run)[0].send_signal(signal.SIGKILL)
    assert run.wait(timeout=60) is State.FINISHED
    starts = [event for event in run.events() if event.kind == "starting"]
    assert starts[1].data["resume_from"].startswith("step-0000")


def test_a_killed_supervisor_leaves_no_rank_and_the_run_goes_on_when_resumed() -> None:
    run = train(epochs=30, pause_s=0.01, checkpoint_every="5steps")
    until(lambda: run.progress.step >= 12)
    owner, ranks = supervisor_of(run), ranks_of(run)
    owner.kill()
    until(lambda: not any(rank.is_running() and rank.status() != psutil.STATUS_ZOMBIE for rank in ranks), 15)
    until(lambda: run.is_interrupted)
    assert run.shown_state == "interrupted"
    run.resume()
    assert run.wait(timeout=60) is State.FINISHED


def test_runs_wait_for_devices_first_come_first_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JTRAIN_CPU_SLOTS", "2")
    first = train(epochs=500, pause_s=0.01)
    until(lambda: first.state is State.RUNNING)
    second, third = start("pass"), start("pass", nproc=1)
    until(lambda: "CPU" in second.reason and "CPU" in third.reason)
    assert first.id in second.reason
    assert second.state is third.state is State.QUEUED
    first.stop()
    assert second.wait(timeout=60) is third.wait(timeout=60) is State.FINISHED
    started = [next(e.time for e in run.events() if e.kind == "starting") for run in (second, third)]
    assert started == sorted(started)


def test_a_waiting_run_can_be_paused_and_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JTRAIN_CPU_SLOTS", "2")
    first = train(epochs=500, pause_s=0.01)
    until(lambda: first.state is State.RUNNING)
    waiting = start("pass")
    until(lambda: "CPU" in waiting.reason)
    waiting.pause()
    assert waiting.wait(timeout=30) is State.PAUSED
    waiting.stop()
    assert waiting.state is State.STOPPED
    first.stop()
    first.wait(timeout=30)


def test_several_runs_at_once_do_not_clash() -> None:
    runs = [train(epochs=2) for _ in range(4)]
    assert {run.wait(timeout=80) for run in runs} == {State.FINISHED}


def test_a_living_run_can_not_be_resumed_and_a_finished_one_neither() -> None:
    run = train(epochs=500, pause_s=0.01)
    until(lambda: run.state is State.RUNNING)
    with pytest.raises(JtrainError, match="running already"):
        run.resume()
    run.stop()
    run.wait(timeout=30)
    done = start("pass", nproc=1)
    done.wait(timeout=60)
    with pytest.raises(JtrainError, match="--resume"):
        done.resume()


def test_what_a_rank_started_does_not_outlive_the_run() -> None:
    run = start(
        "import subprocess\nchild = subprocess.Popen(['sleep', '300'])\npid = child.pid", nproc=1, outputs=("pid",)
    )
    pid = run.result(timeout=60)["pid"]
    until(lambda: not psutil.pid_exists(pid), 10)


def test_machine_samples_are_recorded_while_it_runs() -> None:
    run = train(epochs=500, pause_s=0.01)
    until(lambda: len(run.samples()) >= 2)
    run.stop()
    run.wait(timeout=30)
    sample = run.samples()[-1]
    assert sample["host"]["memory_total_bytes"] > 0
    assert {worker["rank"] for worker in sample["workers"]} == {0, 1}


FORKING = """
import os
if not (child := os.fork()):
    value = "the child's"
    {end}
else:
    os.waitpid(child, 0)
    run.accelerator.wait_for_everyone()
    value = "the parent's"
"""


@pytest.mark.parametrize("end", ["pass", "raise ValueError('in the child')", "raise SystemExit(3)"])
def test_a_process_that_the_cell_forks_writes_nothing_down_for_its_rank(end: str) -> None:
    run = start(FORKING.format(end=end), outputs=("value",))
    assert run.result(timeout=60) == {"value": "the parent's"}
    assert not list(run.paths.attempt(1).root.glob("errors/*"))
    assert ("ValueError: in the child" in "".join(run.logs())) == ("ValueError" in end)
