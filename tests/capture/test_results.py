"""What a cell gives back, as it arrives in the notebook after the result's folder is gone."""

from __future__ import annotations

import pytest

from tests.capture.processes import Case, Processes

NET = """
import torch
SCALE = 3
class Net(torch.nn.Module):
    class Config:
        pass
    def __init__(self):
        super().__init__()
        self.layer, self.config = torch.nn.Linear(100, 100), Net.Config()
    def forward(self, x): return helper(self.layer(x))
def helper(x): return x * SCALE
model = Net()
"""

CASES = {
    "a model trained by DistributedDataParallel": Case(
        NET,
        """
        import os
        from accelerate import Accelerator
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        model = torch.nn.parallel.DistributedDataParallel(model)
        accelerator = Accelerator(cpu=True)
        optimizer = torch.optim.AdamW(model.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        loader = torch.utils.data.DataLoader([1, 2])
        optimizer, scheduler, loader = accelerator.prepare(optimizer, scheduler, loader)
        model(torch.ones(2, 100)).sum().backward()
        optimizer.step()
        both = {"again": model, "loss": torch.ones(1, requires_grad=True) * 2}
        live = type(model).__name__
        """,
        outputs=("model", "optimizer", "scheduler", "loader", "both", "live"),
        check="""
        model, optimizer = result["model"], result["optimizer"]
        print(type(model) is Net, type(model.config) is Net.Config, result["both"]["again"] is model, result["live"])
        print(type(optimizer).__name__, optimizer.param_groups[0]["params"][0] is model.layer.weight)
        print(result["scheduler"].optimizer is optimizer, type(result["loader"]).__name__)
        print(result["both"]["loss"].item())
        model(torch.ones(100)).sum().backward()
        optimizer.step()
        """,
        prints_back="True True True DistributedDataParallel\nAdamW True\nTrue DataLoader\n2.0",
    ),
    "functions and classes of the cell": Case(
        NET,
        """
        mean = 5
        class Local(Net):
            def total(self): return mean
        def predict(x): return helper(x) + mean
        local, mine, theirs = Local(), predict, helper
        """,
        outputs=("local", "mine", "theirs"),
        check="""
        mean = "mine"
        print(result["mine"](1), mean, result["theirs"] is helper)
        print(isinstance(result["local"], Net), result["local"].total())
        """,
        prints_back="8 mine True\nTrue 5",
    ),
    "a notebook that has nothing of it": Case(
        NET,
        "SCALE = 4\nfirst = model.layer.weight[0, 0].item()",
        outputs=("model", "first"),
        check="""
        model = result["model"]
        print(type(model).__name__, model.layer.weight[0, 0].item() == result["first"], "SCALE" in globals())
        print(model(__import__("torch").zeros(100)).shape)
        """,
        prints_back="Net True False\ntorch.Size([100])",
        has_notebook=False,
    ),
    "data of every size": Case(
        "import numpy as np, pandas as pd, torch",
        """
        big, small = np.arange(500_000.0), np.arange(3)
        frame = pd.DataFrame({"x": range(5000)})
        view = torch.arange(1_000_000)[10:12]
        history = [{"loss": 1.0}] * 3
        """,
        outputs=("big", "small", "frame", "view", "history"),
        check="""
        result["big"][0] = result["view"][0] = 7
        print(result["big"].sum(), result["small"].tolist(), len(result["frame"]), result["view"].tolist())
        print(result["history"][0] is result["history"][1])
        """,
        prints_back="124999750007.0 [0, 1, 2] 5000 [7, 11]\nTrue",
    ),
    "values that can't leave are named, and the others come": Case(
        "",
        "import threading\ngood, lock = 1, threading.Lock()\nparts = {'a': [lock]}",
        outputs=("parts", "good", "lock"),
        check="print(result)",
        prints_back="{'good': 1}",
    ),
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """What working and checking printed, by case."""
    processes = Processes(tmp_path_factory.mktemp("results"), CASES)
    captured = processes.capture()
    assert all(text.startswith("{") for text in captured.values()), captured
    worked, checked = processes.work(), processes.take_back()
    return {name: (worked[name], checked[name]) for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_results_arrive(name: str, printed: dict[str, tuple[str, str]]) -> None:
    worked, checked = printed[name]
    assert checked.strip() == CASES[name].prints_back, worked


def test_what_cannot_leave_is_named(printed: dict[str, tuple[str, str]]) -> None:
    worked, _ = printed["values that can't leave are named, and the others come"]
    message = worked.splitlines()[-3:]
    assert message == [
        "jtrain.errors.CaptureError: can't be sent back to the notebook:",
        "  parts['a'][0] is a lock (_thread.lock)",
        "  lock is a lock (_thread.lock)",
    ]
