"""An error after a loop doesn't cost what the loop trained."""

from __future__ import annotations

import pytest
import torch

from jtrain.domain.states import State
from jtrain.run import Run
from tests.cells import TRAINING, start

pytestmark = pytest.mark.timeout(120)

AFTER = """
import random, numpy
found = [float(torch.rand(1)), random.random(), float(numpy.random.rand())]
weights = {name: value.detach().clone() for name, value in run.accelerator.unwrap_model(model).state_dict().items()}
"""


def train(after: str = AFTER, source: str = TRAINING, **options: object) -> Run:
    variables = {"EPOCHS": 2, "PAUSE_S": 0.0, "__name__": "__main__"}
    run = start(source + after, variables, outputs=("found", "weights") if "found" in after else (), **options)
    run.wait(timeout=60)
    return run


@pytest.mark.parametrize("nproc", [1, 2])
def test_the_corrected_cell_goes_on_after_the_loop_to_the_bit(nproc: int) -> None:
    straight = train(nproc=nproc)
    failed = train("torch.rand(3)\nevaluate_the_model()", nproc=nproc)
    assert failed.state is State.FAILED
    assert "evaluate_the_model" in failed.reason
    [checkpoint] = failed.checkpoints()
    assert any("is kept as" in notice["text"] for notice in failed.notices())
    again = train(resume=failed.id, nproc=nproc)
    assert again.state is State.FINISHED, again.reason
    assert again.progress.step == checkpoint.step == straight.progress.step
    assert again.outputs()["found"] == straight.outputs()["found"]
    for name, value in straight.outputs()["weights"].items():
        assert torch.equal(value, again.outputs()["weights"][name])


def test_between_the_epochs_of_an_outer_loop_too() -> None:
    source = TRAINING.replace(
        "for given, wanted in run.batches(loader, epochs=EPOCHS):",
        "for epoch in run.epochs(EPOCHS):\n  for given, wanted in run.batches(loader):",
    ).replace("\n    ", "\n      ")
    straight = train(source=source)
    failed = train("", source=source + "  if epoch == 0: raise ValueError(epoch)\n")
    assert [checkpoint.step for checkpoint in failed.checkpoints()] == [8]
    again = train(source=source, resume=failed.id)
    assert again.state is State.FINISHED, again.reason
    assert again.outputs()["found"] == straight.outputs()["found"]


@pytest.mark.parametrize(
    "after",
    [
        "if run.rank == 0: raise ValueError",
        "run.step(model(torch.ones(2, 4)).mean()); raise ValueError",
        "for _ in run.batches(loader): raise ValueError",
    ],
)
def test_without_a_place_that_all_ranks_agree_on_there_is_none(after: str) -> None:
    failed = train(after)
    assert failed.state is State.FAILED
    assert failed.checkpoints() == []


def test_it_is_not_written_twice() -> None:
    failed = train("run.checkpoint(wait=True)\nraise ValueError")
    assert len(failed.checkpoints()) == 1
