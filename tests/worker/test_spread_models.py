"""Models that `fully_shard` spreads over the ranks: saved in slices, read as slices, on any number of ranks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from jtrain.domain.states import State
from jtrain.run import Run
from tests.cells import start

pytestmark = pytest.mark.timeout(150)

CELL = """
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset
run.accelerator
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 1))
if SPREAD:
    mesh = init_device_mesh("cpu", (run.world_size,))
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
inputs = torch.randn(96, 5, generator=torch.Generator().manual_seed(0))
loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=4, shuffle=True)
model, optimizer, loader = run.prepare(model, optimizer, loader)
class Average:
    def __init__(self, model):
        self.values = {name: value.detach().clone() for name, value in model.named_parameters()}
    def update(self, model):
        for name, value in model.named_parameters():
            self.values[name].lerp_(value.detach(), 0.1)
    def state_dict(self):
        return dict(self.values)
    def load_state_dict(self, state):
        for name, value in state.items():
            self.values[name].copy_(value)
average = run.register("average", Average(model)) if AVERAGE else None
for number, (given, wanted) in enumerate(run.batches(loader, epochs=3)):
    run.step(torch.nn.functional.mse_loss(model(given), wanted))
    if average is not None and run.accelerator.sync_gradients:
        average.update(model)
    if number == STOP:
        run.checkpoint()
    if number == STOP + 1 and FAILS:
        raise RuntimeError("a failure on purpose")
whole = lambda value: value.full_tensor() if hasattr(value, "full_tensor") else value.detach()
averages = [whole(value) for value in average.values.values()] if average else []
bare = run.accelerator.unwrap_model(model)
weights = {name: whole(value) for name, value in bare.state_dict().items()}
moments = [whole(state["exp_avg"]) for state in optimizer.optimizer.state.values()]
"""


def train(*, fails: bool = False, stop: int = 7, spread: bool = True, average: bool = False, **options: Any) -> Run:
    variables = {"__name__": "__main__", "FAILS": fails, "STOP": stop, "SPREAD": spread, "AVERAGE": average}
    run = start(CELL, variables, outputs=("weights", "moments", "averages"), **options)
    assert run.wait(timeout=100) is (State.FAILED if fails else State.FINISHED), run.reason
    return run


def assert_same(first: Run, second: Run, *, exactly: bool) -> None:
    one, other = first.outputs(), second.outputs()
    pairs = [(one["weights"][name], other["weights"][name]) for name in one["weights"]]
    for here, there in [
        *pairs,
        *zip(one["moments"] + one["averages"], other["moments"] + other["averages"], strict=True),
    ]:
        if exactly:
            assert torch.equal(here, there)
        else:
            torch.testing.assert_close(here, there, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_same_number_of_ranks_comes_to_the_same_bits(accumulate: int) -> None:
    straight = train(accumulate=accumulate)
    failed = train(fails=True, accumulate=accumulate)
    assert len(failed.checkpoints()) == 1
    assert_same(straight, train(resume=failed.id, accumulate=accumulate), exactly=True)


def test_other_numbers_of_ranks_come_to_the_same_numbers() -> None:
    straight = train()
    failed = train(fails=True)
    for ranks in (1, 4):
        assert_same(straight, train(resume=failed.id, nproc=ranks), exactly=False)


def test_spread_and_whole_go_on_from_each_other() -> None:
    straight = train()
    assert_same(straight, train(resume=train(fails=True).id, spread=False), exactly=False)
    assert_same(straight, train(resume=train(fails=True, spread=False).id), exactly=False)


def test_a_registered_average_of_a_spread_model_goes_on() -> None:
    straight = train(average=True)
    failed = train(average=True, fails=True)
    assert_same(straight, train(average=True, resume=failed.id), exactly=True)
    assert_same(straight, train(average=True, resume=failed.id, nproc=1), exactly=False)


def test_slices_are_put_together_for_other_programs(tmp_path: Any) -> None:
    run = train(stop=35)  # after the last batch
    [file] = run.export(tmp_path / "weights.safetensors")
    for name, value in load_file(file).items():
        assert torch.equal(value, run.outputs()["weights"][name])
