"""Damaged, foreign or unwritable checkpoints are recognised and named; training goes on or stops with a reason."""

from __future__ import annotations

import json
import os
import resource
from collections import defaultdict
from pathlib import Path

import pytest
import torch

from jtrain.checkpointing.checkpointer import Checkpointer
from jtrain.domain.states import State
from jtrain.errors import CheckpointError
from jtrain.store.checkpoints import list_checkpoints
from jtrain.store.paths import RunPaths
from jtrain.worker.state import TrainingState, check_registrable
from tests.cells import TRAINING, start, train
from tests.worker.alone import Other, alone, write

pytestmark = pytest.mark.timeout(60)


def paths_of(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path / "brisk-otter-7")
    paths.checkpoints.mkdir(parents=True)
    return paths


def save(paths: RunPaths, *steps: int, keep: int = 5) -> Checkpointer:
    checkpointer = alone(paths, keep)
    for step in steps:
        write(checkpointer, step, {"weights": torch.full((4,), float(step))}, {"mine": step})
    return checkpointer


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "manifest", "empty-manifest"])
def test_a_damaged_checkpoint_is_named_and_the_newest_good_one_used(tmp_path: Path, harm: str) -> None:
    paths = paths_of(tmp_path)
    checkpointer = save(paths, 1, 2)
    file = paths.checkpoints / "step-000002" / "rank-0.safetensors"
    data = file.read_bytes()
    if harm == "flip":
        file.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    elif harm == "cut":
        file.write_bytes(data[:-1])
    elif harm == "remove":
        file.unlink()
    else:
        manifest = file.with_name("manifest.json")
        manifest.write_bytes(b"" if harm == "empty-manifest" else manifest.read_bytes()[:-30])
    loaded, name, problems = checkpointer.load("step-000002")
    weights = loaded.fill(loaded.shared, {})["weights"]
    assert (name, loaded.owns[0]["mine"], float(weights[0])) == ("step-000001", 1, 1.0)
    assert problems[0].startswith("step-000002")


def test_no_good_checkpoint_is_an_error_that_names_each(tmp_path: Path) -> None:
    paths = paths_of(tmp_path)
    checkpointer = save(paths, 1)
    (paths.checkpoints / "step-000001" / "rank-0.state").unlink()
    with pytest.raises(CheckpointError, match=r"step-000001: rank-0\.state"):
        checkpointer.load("step-000001")


def test_every_rank_names_the_file_that_is_damaged(tmp_path: Path) -> None:
    paths = paths_of(tmp_path)
    save(paths, 1)
    manifest = paths.checkpoints / "step-000001" / "manifest.json"
    content = json.loads(manifest.read_text())
    lost = {"rank-1.safetensors": {"size_bytes": 5, "digest": ""}}
    manifest.write_text(json.dumps({**content, "world_size": 2, "files": {**content["files"], **lost}}))

    class OtherIsHarmed(Other):
        def all_agree(self, is_fine: bool) -> bool:
            return False

    with pytest.raises(CheckpointError, match=r"step-000001: rank-1\.safetensors is missing"):
        alone(paths, group=OtherIsHarmed()).load("step-000001")


def test_a_full_disk_is_named_as_the_system_names_it(tmp_path: Path) -> None:
    paths = paths_of(tmp_path)
    checkpointer = alone(paths)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        with pytest.raises(CheckpointError, match="File too large"):
            write(checkpointer, 2, {}, {"weights": torch.zeros(300_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_run_whose_only_checkpoint_lost_its_manifest_does_not_begin_anew_in_silence() -> None:
    run = train(epochs=200, pause_s=0.01, nproc=1)
    run.pause()
    assert run.wait(timeout=50) is State.PAUSED, run.logs()
    [checkpoint] = run.checkpoints()
    (checkpoint.folder / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match=checkpoint.name):
        train(resume=run.id)
    run.resume()
    assert run.wait(timeout=50) is State.FAILED
    assert f"{checkpoint.name}: its manifest is missing" in run.reason


def test_a_checkpoint_of_another_number_of_ranks_is_spread_and_a_newer_format_refused(tmp_path: Path) -> None:
    paths = paths_of(tmp_path)
    checkpointer = save(paths, 1)
    loaded, *_ = alone(paths, group=Other()).load("step-000001")
    assert ([own["mine"] for own in loaded.owns], loaded.writers, loaded.position.ranks) == ([1], 1, 1)
    manifest = paths.checkpoints / "step-000001" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    with pytest.raises(CheckpointError, match="newer jtrain"):
        checkpointer.load("step-000001")


def test_retention_keeps_the_newest_and_never_less(tmp_path: Path) -> None:
    paths = paths_of(tmp_path)
    save(paths, 1, 2, 3, 4, keep=2)
    assert [checkpoint.name for checkpoint in list_checkpoints(paths)] == ["step-000003", "step-000004"]


def test_the_same_step_again_leaves_the_one_before_whole_until_it_is_written(tmp_path: Path) -> None:
    paths = paths_of(tmp_path)
    save(paths, 1, 1)
    assert [checkpoint.name for checkpoint in list_checkpoints(paths)] == ["step-000001", "step-000001-2"]
    save(paths, 1, keep=1)
    assert [checkpoint.name for checkpoint in list_checkpoints(paths)] == ["step-000001-3"]


def test_the_newest_is_the_one_written_last_also_after_copying(tmp_path: Path) -> None:
    paths = paths_of(tmp_path)
    checkpointer = save(paths, 1, 2, 3)
    os.utime(paths.checkpoints / "step-000001" / "manifest.json")
    (paths.checkpoints / "step-000003" / "rank-0.state").unlink()
    assert checkpointer.load("step-000003")[1] == "step-000002"


def test_a_folder_that_takes_nothing_leaves_the_old_checkpoints_alone(tmp_path: Path) -> None:
    paths = paths_of(tmp_path)
    checkpointer = save(paths, 1)
    (paths.checkpoints / ".partial-1-2-step-000002").write_text("in the way")  # stands where the folder should be
    with pytest.raises(CheckpointError, match="could not be written"):
        write(checkpointer, 2)
    assert [checkpoint.name for checkpoint in list_checkpoints(paths)] == ["step-000001"]


def test_a_vanished_checkpoint_folder_does_not_end_the_training() -> None:
    run = start(
        "import shutil\n"
        "from jtrain.store.runs import RunStore\n"
        "folder = RunStore().find(run.id).checkpoints\n"
        "run.accelerator\n"
        "if run.rank == 0:\n    shutil.rmtree(folder); folder.write_text('no folder')\n"
        "run.accelerator.wait_for_everyone()\n"
        "out = run.checkpoint(wait=True)",
        outputs=("out",),
    )
    assert run.result(timeout=50) == {"out": None}
    assert "could not be written" in run.notices()[0]["text"]


TRAIN = """
import numpy, torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(1, 1)
optimizer = {optimizer}
loader = DataLoader(TensorDataset(torch.arange(8.)[:, None]), batch_size=2)
model, optimizer, loader = run.prepare(model, optimizer, loader)
for (batch,) in run.batches(loader, epochs=2):
    run.step(model(batch).pow(2).mean())
    run.checkpoint()
"""


def test_numbers_of_numpy_in_an_optimizer_can_be_read_again() -> None:
    source = TRAIN.format(optimizer="torch.optim.SGD(model.parameters(), lr=numpy.float64(0.01))")
    first = start(source, nproc=1)
    assert first.wait(timeout=50) is State.FINISHED
    second = start(source, nproc=1, resume=first.id)
    assert second.wait(timeout=50) is State.FINISHED, second.reason


def test_another_optimizer_is_named() -> None:
    first = start(TRAIN.format(optimizer="torch.optim.AdamW(model.parameters())"), nproc=1)
    assert first.wait(timeout=50) is State.FINISHED
    second = start(TRAIN.format(optimizer="torch.optim.SGD(model.parameters(), lr=0.1)"), nproc=1, resume=first.id)
    assert second.wait(timeout=50) is State.FAILED
    assert "SGD here and a AdamW in the checkpoint" in second.reason


def test_a_registered_object_that_can_not_be_saved_is_named_and_the_training_goes_on() -> None:
    run = start(
        "things = run.register('things', [1])\nif run.rank == 1: things.append(lambda: 1)\n"
        "out = run.checkpoint(wait=True)",
        {"__name__": "__main__"},
        outputs=("out",),
    )
    assert run.result(timeout=50) == {"out": None}
    assert run.checkpoints() == []
    assert "'things'" in run.logs(rank=1)


def test_a_disk_that_fills_up_leaves_the_last_good_checkpoint_and_the_training_alone() -> None:
    run = start(
        "import resource, signal, torch\n"
        "values = run.register('values', [torch.zeros(10)])\n"
        "first = run.checkpoint(wait=True)\n"
        "values[0] = torch.zeros(1_000_000)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))\n"
        "second = run.checkpoint(wait=True)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "third = run.checkpoint(wait=True)",
        outputs=("first", "second", "third"),
        keep=1,
    )
    out = run.result(timeout=50)
    assert (out["first"], out["second"], out["third"]) == ("step-000000", None, "step-000000-2")
    assert "the last good checkpoint is kept" in run.notices()[0]["text"]


def test_a_container_keeps_its_kind() -> None:
    state = TrainingState()
    counts = state.registered["counts"] = defaultdict(lambda: 7, {"a": 1})
    saved = {"counts": dict(counts)}
    counts["b"] = 2
    state._restore_registered(saved)
    assert (dict(counts), counts["new"]) == ({"a": 1}, 7)
    with pytest.raises(CheckpointError, match="a dict here and a list in the checkpoint"):
        state._restore_registered({"counts": []})


MODEL = """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Sequential(torch.nn.Linear(4, {width}), torch.nn.Linear({width}, 1))
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=4)
model, optimizer, loader = run.prepare(model, optimizer, loader)
run.register({name!r}, [])
for (batch,) in run.batches(loader, epochs=2):
    run.step(model(batch).pow(2).mean())
    {more}
"""


def test_an_edited_cell_goes_on_or_is_told_what_does_not_fit() -> None:
    first = start(MODEL.format(width=8, name="history", more="run.checkpoint()"), nproc=1)
    assert first.wait(timeout=50) is State.FINISHED
    same = start(MODEL.format(width=8, name="history", more="print('added')"), nproc=1, resume=first.id)
    assert same.wait(timeout=50) is State.FINISHED
    other = start(MODEL.format(width=9, name="history", more=""), nproc=1, resume=first.id)
    assert other.wait(timeout=50) is State.FAILED
    assert "'0.weight'" in other.reason
    assert "(9, 4)" in other.reason
    assert "(8, 4)" in other.reason
    renamed = start(MODEL.format(width=8, name="histories", more=""), nproc=1, resume=first.id)
    assert renamed.wait(timeout=50) is State.FAILED
    assert "'history'" in renamed.reason
    assert "'histories'" in renamed.reason


def test_resume_auto_finds_the_unfinished_run_of_the_same_cell() -> None:
    first = train(epochs=500, pause_s=0.01, checkpoint_every="2steps")
    while not first.checkpoints():
        pass
    first.stop()
    first.wait(timeout=30)
    second = train(epochs=500, pause_s=0.01, resume="auto")
    assert second.spec.resumed_from.startswith(f"{first.id}/step-")
    assert second.spec.seed == first.spec.seed
    second.stop()
    second.wait(timeout=30)


def test_only_what_can_be_put_back_may_be_registered() -> None:
    with pytest.raises(TypeError, match="int has no state_dict"):
        check_registrable("count", 3)


def test_another_batch_size_on_resume_is_said() -> None:
    variables = {"EPOCHS": 2, "PAUSE_S": 0.0, "__name__": "__main__"}
    first = start(TRAINING + "raise RuntimeError", variables, nproc=1, checkpoint_every="9steps")
    assert first.wait(timeout=30) is State.FAILED
    second = start(TRAINING.replace("batch_size=4", "batch_size=2"), variables, nproc=1, resume=first.id)
    assert second.wait(timeout=30) is State.FINISHED
    said = [notice["text"] for notice in second.notices() if notice["level"] == "warning"]
    assert len(said) == 1
    assert "32 batches in an epoch now and had 16" in said[0]
