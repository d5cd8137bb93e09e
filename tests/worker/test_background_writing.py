"""Checkpoints are written while the training goes on, and whatever happens meanwhile, none is half there."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import torch

from jtrain.domain.checkpoints import Position
from jtrain.domain.states import State
from jtrain.errors import CheckpointError
from jtrain.run import Run
from jtrain.store.checkpoints import list_checkpoints
from jtrain.store.paths import RunPaths
from jtrain.store.ranks import RankTable
from tests.cells import TRAINING, start
from tests.worker.alone import alone, write

pytestmark = pytest.mark.timeout(120)

SLOW = """
import os, time
fsync = os.fsync
def slow_fsync(descriptor):
    time.sleep(SLOW_S)
    return fsync(descriptor)
os.fsync = slow_fsync
"""

LOOP = """
import time, torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(1, 1)
loader = DataLoader(TensorDataset(torch.arange(400.)[:, None]), batch_size=2)
model, optimizer, loader = run.prepare(model, torch.optim.AdamW(model.parameters()), loader)
"""


def variables(**more: object) -> dict[str, object]:
    return {"__name__": "__main__", **more}


def paths_of(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path / "brisk-otter-7")
    paths.checkpoints.mkdir(parents=True)
    return paths


def test_a_slow_disk_delays_checkpoints_and_not_the_training() -> None:
    source = (
        SLOW
        + LOOP
        + """
for (batch,) in run.batches(loader):
    run.step(model(batch).pow(2).mean())
    time.sleep(0.02)
last = run.global_step
"""
    )
    run = start(
        source,
        variables(SLOW_S=0.05),
        nproc=2,
        checkpoint_every="5steps",
        keep=100,
        outputs=("last",),
    )
    assert run.result(timeout=100)["last"] == 100
    steps = [checkpoint.step for checkpoint in run.checkpoints()]
    assert steps[0] == 5
    assert 1 < len(steps) < 20  # in time for each there would be 20
    assert sum("disk takes longer" in notice["text"] for notice in run.notices()) == 1
    assert not list(run.paths.checkpoints.glob(".partial-*"))


def test_a_run_is_finished_when_its_last_checkpoint_is_complete() -> None:
    run = start(SLOW + LOOP + "out = run.checkpoint()\nat = time.time()", variables(SLOW_S=0.5), outputs=("out", "at"))
    out = run.result(timeout=60)
    [checkpoint] = run.checkpoints()
    assert checkpoint.name == out["out"] == "step-000000"
    published = (checkpoint.folder / "manifest.json").stat().st_mtime
    assert published > out["at"]
    assert run.events()[-1].time > published


def test_a_checkpoint_under_way_is_completed_when_the_cell_fails() -> None:
    run = start(
        SLOW + LOOP + "run.checkpoint()\nif run.rank == 1: raise ValueError('no')\nrun.accelerator.wait_for_everyone()",
        variables(SLOW_S=0.5),
        nproc=2,
    )
    assert run.wait(timeout=60) is State.FAILED
    assert "ValueError" in run.reason
    assert [checkpoint.step for checkpoint in run.checkpoints()] == [0]


@pytest.mark.parametrize("failing", ["rank 0", "rank 1"])
def test_a_disk_with_errors_costs_the_checkpoint_and_nothing_else(failing: str) -> None:
    run = start(
        LOOP
        + """
import errno, os
write, broken = os.write, []
def failing_write(descriptor, data):
    if broken:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    return write(descriptor, data)
os.write = failing_write
names = [run.checkpoint(wait=True)]
if run.rank == RANK: broken.append(1)
names.append(run.checkpoint(wait=True))
broken.clear()
names.append(run.checkpoint(wait=True))
""",
        variables(RANK=int(failing[-1])),
        nproc=2,
        outputs=("names",),
    )
    assert run.result(timeout=60)["names"] == ["step-000000", None, "step-000000-2"]
    texts = " ".join(notice["text"] for notice in run.notices())
    assert "Input/output error" in run.logs(rank=int(failing[-1]))
    assert ("Input/output error" if failing == "rank 0" else "rank 1 could not write its part") in texts
    assert "the last good checkpoint is kept" in texts
    assert sorted(path.name for path in run.paths.checkpoints.iterdir()) == ["step-000000", "step-000000-2"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 40 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "none", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_disk_without_room_is_told_before_it_is_full(small_disk: Path) -> None:
    paths = paths_of(small_disk)
    checkpointer = alone(paths)
    write(checkpointer, 1, {"weights": torch.zeros(1_000_000)})
    with pytest.raises(CheckpointError, match=r"it needs \d+ MiB and the disk has \d+ MiB free"):
        write(checkpointer, 2, {"weights": torch.zeros(9_000_000)})
    assert [info.name for info in list_checkpoints(paths)] == ["step-000001"]
    assert [path.name for path in paths.checkpoints.iterdir()] == ["step-000001"]


def test_a_disk_that_is_full_all_of_a_sudden_keeps_the_good_ones(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = paths_of(small_disk)
    checkpointer = alone(paths)
    write(checkpointer, 1, {"weights": torch.zeros(1_000_000)})
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1 << 40}))
    with pytest.raises(CheckpointError, match="No space left on device"):
        write(checkpointer, 2, {"weights": torch.zeros(12_000_000)})
    assert [path.name for path in paths.checkpoints.iterdir()] == ["step-000001"]
    loaded, name, problems = checkpointer.load("step-000001")
    assert (name, problems, loaded.position.step) == ("step-000001", [], 1)


def test_leftovers_of_a_killed_writer_go_with_the_next_checkpoint(tmp_path: Path) -> None:
    paths = paths_of(tmp_path)
    left = paths.checkpoints / ".partial-1-7-step-000009"
    left.mkdir()
    (left / "rank-0.safetensors").write_bytes(b"half")
    write(alone(paths, attempt=2), 10)
    assert [path.name for path in paths.checkpoints.iterdir()] == ["step-000010"]


def test_the_memory_is_that_of_one_copy_however_many_are_taken(tmp_path: Path) -> None:
    paths = paths_of(tmp_path)
    checkpointer = alone(paths, 1, keeps_memory=True)
    state = {"weights": torch.ones(25_000_000)}
    write(checkpointer, 0, state)
    used = psutil.Process().memory_info().rss
    for step in range(1, 6):
        write(checkpointer, step, state)
    assert psutil.Process().memory_info().rss - used < 20e6
    checkpointer._buffer.release()
    assert psutil.Process().memory_info().rss < used - 80e6


def test_what_is_changed_after_the_copy_is_not_in_the_checkpoint(tmp_path: Path) -> None:
    checkpointer = alone(paths_of(tmp_path))
    weights, history = torch.zeros(1000), [torch.zeros(3), 1]
    name = checkpointer.begin(Position(step=1), {"weights": weights}, {"history": history})
    weights.fill_(1.0)
    history.append(2)
    checkpointer.wait()
    loaded, *_ = checkpointer.load(name)
    assert loaded.fill(loaded.shared, {})["weights"].sum() == 0
    assert len(loaded.owns[0]["history"]) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
@pytest.mark.parametrize("whom", ["supervisor", "worker"])
def test_a_notice_of_the_end_pauses_the_run(whom: str, number: signal.Signals) -> None:
    run = start(TRAINING, {"EPOCHS": 500, "PAUSE_S": 0.01, **variables()}, nproc=2)
    until(lambda: (run.progress.step or 0) > 3)
    workers = pids(run)
    os.kill(workers[1] if whom == "worker" else psutil.Process(workers[0]).ppid(), number)
    assert run.wait(timeout=60) is State.PAUSED, run.reason
    assert any(number.name in event.reason for event in run.events())
    assert len(run.checkpoints()) == 1


def pids(run: Run) -> list[int]:
    table = RankTable.open(run.paths.attempt(1).ranks, writable=False)
    try:
        return [table.row(rank).pid for rank in range(table.world_size)]
    finally:
        table.close()


def until(is_true: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_metrics_that_are_no_numbers_harm_no_checkpoint(tmp_path: Path) -> None:
    paths = paths_of(tmp_path)
    checkpointer = alone(paths)
    name = write(checkpointer, 1, best=float("inf"), loss=float("nan"), accuracy=0.5)
    [info] = list_checkpoints(paths)
    assert (info.name, dict(info.metrics)) == (name, {"accuracy": 0.5})
    assert checkpointer.load(name)[1:] == (name, [])


def test_what_there_is_to_a_registered_tensor_besides_its_numbers_is_kept(tmp_path: Path) -> None:
    checkpointer = alone(paths_of(tmp_path))
    whole = torch.arange(12.0)
    things = [torch.ones(2, requires_grad=True), torch.nn.Parameter(torch.ones(3)), whole[2:8], whole[:9].view(3, 3).T]
    name = write(checkpointer, 1, own={"registered": {"things": things}})
    leaf, parameter, part, turned = checkpointer.load(name)[0].owns[0]["registered"]["things"]
    assert leaf.requires_grad
    assert type(parameter) is torch.nn.Parameter
    assert turned.stride() == (1, 3)
    part[0] = 100.0
    assert turned[2, 0] == 100.0
