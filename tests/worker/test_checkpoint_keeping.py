"""Checkpoints that are pinned stay, weights can be written out for other programs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import jtrain
from jtrain.domain.states import State
from jtrain.errors import CheckpointError
from jtrain.run import Run
from jtrain.store.checkpoints import list_checkpoints, pin_checkpoint
from jtrain.store.paths import RunPaths
from jtrain.verbs.answers import Shown
from jtrain.verbs.table import answer
from tests.cells import start
from tests.worker.alone import alone, write

pytestmark = pytest.mark.timeout(60)

CELL = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False))
model[1].weight = model[0].weight
model, optimizer = run.prepare(model, torch.optim.AdamW(model.parameters()))
for number in range(3):
    run.step(model(torch.rand(2, 3)).sum())
    run.checkpoint()
weight = run.accelerator.unwrap_model(model)[0].weight.detach()
"""


def names(paths: RunPaths) -> list[str]:
    return [info.name for info in list_checkpoints(paths)]


@pytest.fixture
def run() -> Run:
    run = start(CELL, {"__name__": "__main__"}, nproc=1, outputs=("weight",))
    assert run.wait(timeout=50) is State.FINISHED, run.reason
    return run


def test_a_pinned_checkpoint_stays_besides_those_that_are_kept(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "brisk-otter-7")
    paths.checkpoints.mkdir(parents=True)
    checkpointer = alone(paths, 2)
    write(checkpointer, 1)
    pin_checkpoint(paths, "step-000001")
    for step in (2, 3, 4):
        write(checkpointer, step)
    assert names(paths) == ["step-000001", "step-000003", "step-000004"]
    pin_checkpoint(paths, "step-000001", is_pinned=False)
    write(checkpointer, 5)
    assert names(paths) == ["step-000004", "step-000005"]


def test_pins_are_set_and_shown_by_the_magic(run: Run) -> None:
    shown = answer(["checkpoints", run.id, "--pin", "step-000002"])
    assert isinstance(shown, Shown)
    assert ["pinned" in line for line in shown.text.splitlines() if "/step-" in line][:3] == [False, True, False]
    answer(["checkpoints", run.id, "--unpin", "step-000002"])
    assert not any(info.is_pinned for info in jtrain.checkpoints(run.id))
    with pytest.raises(CheckpointError, match="did you mean step-000002"):
        run.pin("step-00002")


def test_weights_are_written_as_safetensors_tied_ones_too(run: Run, tmp_path: Path) -> None:
    [file] = run.export(tmp_path / "model.safetensors")
    weights = load_file(file)
    assert sorted(weights) == ["0.weight", "1.weight"]
    assert torch.equal(weights["0.weight"], run.outputs()["weight"])
    assert torch.equal(weights["1.weight"], run.outputs()["weight"])
    run.export(tmp_path / "model.safetensors", "step-000001")
    assert not torch.equal(load_file(file)["0.weight"], weights["0.weight"])
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_damaged_checkpoint_is_not_exported(run: Run, tmp_path: Path) -> None:
    file = run.checkpoints()[-1].folder / "rank-0.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match="checksum"):
        run.export(tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="can't be written"):
        run.export(tmp_path / "nowhere" / "model.safetensors", "step-000001")
