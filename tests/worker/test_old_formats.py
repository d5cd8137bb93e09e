"""Checkpoints that earlier versions wrote are still good: `format1` holds one of `tests.cells.train`."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from jtrain.domain.states import State
from tests.cells import train

pytestmark = pytest.mark.timeout(120)
OLD = Path(__file__).with_name("format1") / "step-000020"


@pytest.mark.parametrize("nproc", [2, 1])
def test_a_run_goes_on_from_a_checkpoint_of_format_1(nproc: int, tmp_path: Path) -> None:
    straight = train(epochs=3)
    run = train(epochs=3, checkpoint_every="22steps", keep=1)
    assert run.wait(timeout=50) is straight.wait(timeout=50) is State.FINISHED
    shutil.rmtree(run.paths.checkpoints)
    shutil.copytree(OLD, run.paths.checkpoints / OLD.name)
    [file] = run.export(tmp_path / "weights.safetensors")
    assert file.stat().st_size > 200
    again = train(epochs=3, resume=f"{run.id}/{OLD.name}", nproc=nproc)
    assert again.wait(timeout=50) is State.FINISHED, again.reason
    assert f"went on from {OLD.name}: step 20" in again.logs()
    if nproc == 2:  # on another number of ranks the loss is that of other samples
        # The file is another machine's, whose arithmetic may differ in the last digits.
        values = [run.metrics["loss"] for run in (straight, again)]
        np.testing.assert_allclose(values[0][20:], values[1][-4:], rtol=1e-3)


def test_a_damaged_one_is_named(tmp_path: Path) -> None:
    run = train(epochs=3, checkpoint_every="22steps", keep=1)
    assert run.wait(timeout=50) is State.FINISHED
    shutil.rmtree(run.paths.checkpoints)
    shutil.copytree(OLD, run.paths.checkpoints / OLD.name)
    file = run.paths.checkpoints / OLD.name / "rank-1.pt"
    file.write_bytes(file.read_bytes()[:-1])
    again = train(epochs=3, resume=f"{run.id}/{OLD.name}")
    assert again.wait(timeout=50) is State.FAILED
    assert "rank-1.pt is missing or has another size" in again.reason
