"""What the adaptive trainer accepts: losses, data, optimizers, schedulers; and its evaluation over ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from jtrain.errors import OptionError
from jtrain.worker.evaluation import evaluate, forward, own_loss, split_batch
from jtrain.worker.fit_parts import as_data, make_loader, make_model, make_optimizer, make_scheduler, set_aside
from jtrain.worker.losses import NamedLoss, correct_per_sample, is_classification


def test_a_language_models_outputs_may_have_the_classes_last() -> None:
    outputs, targets = torch.randn(4, 7, 11), torch.randint(11, (4, 7))
    expected = F.cross_entropy(outputs.reshape(-1, 11), targets.reshape(-1))
    assert torch.allclose(NamedLoss("cross_entropy")(outputs, targets), expected)
    assert torch.allclose(NamedLoss("cross_entropy")(outputs.movedim(-1, 1), targets), expected)


def test_targets_with_a_missing_last_dimension_are_matched_not_broadcast() -> None:
    outputs, targets = torch.randn(5, 1), torch.randn(5)
    assert torch.allclose(NamedLoss("mse")(outputs, targets), ((outputs[:, 0] - targets) ** 2).mean())
    with pytest.raises(ValueError, match=r"'mse'.*\(5, 1\).*\(7,\)"):
        NamedLoss("mse")(outputs, torch.randn(7))


def test_whole_numbers_will_do_as_targets_of_a_binary_loss() -> None:
    value = NamedLoss("bce_with_logits")(torch.zeros(4, 1), torch.tensor([0, 1, 1, 0]))
    assert value.item() == pytest.approx(np.log(2))


def test_padding_is_left_out_of_loss_and_accuracy_of_each_sample() -> None:
    outputs = torch.randn(2, 3, 5)
    targets = torch.tensor([[0, -100, 2], [-100, -100, 4]])
    sums, counts = NamedLoss("cross_entropy")(outputs, targets), None
    per_sample, counts = NamedLoss("cross_entropy").per_sample(outputs, targets)
    assert counts.tolist() == [2.0, 1.0]
    assert (per_sample.sum() / counts.sum()).item() == pytest.approx(sums.item(), rel=1e-5)
    _, to_find = correct_per_sample(outputs, targets)
    assert to_find.tolist() == [2.0, 1.0]


def test_arguments_reach_the_loss_and_unknown_names_are_refused() -> None:
    outputs, targets = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    smoothed = NamedLoss("cross_entropy", {"label_smoothing": 0.2})(outputs, targets)
    assert torch.allclose(smoothed, F.cross_entropy(outputs, targets, label_smoothing=0.2))
    with pytest.raises(OptionError, match="did you mean 'cross_entropy'"):
        NamedLoss("crossentropy")


def test_class_indices_are_told_from_numbers() -> None:
    assert is_classification(torch.randn(4, 3), torch.tensor([0, 1, 2, 0]))
    assert not is_classification(torch.randn(4, 3), torch.randn(4))
    assert not is_classification(torch.randn(4, 3), torch.randn(4, 3))
    assert not is_classification({"logits": 1}, torch.tensor([0]))


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ((1, 2), ((1,), {}, 2)),
        ([1, 2, 3], ((1, 2), {}, 3)),
        ([1], ((1,), {}, 1)),
        ({"x": 1, "labels": 2}, ((), {"x": 1}, 2)),
        ({"x": 1}, ((), {"x": 1}, None)),
    ],
)
def test_a_batch_is_inputs_and_targets(batch: Any, expected: Any) -> None:
    assert split_batch(batch) == expected


def test_arrays_become_tensors_of_training_types() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    x, y = as_data((frame, np.array([0, 1], dtype=np.int32)), "train")[1]
    assert (x.dtype, x.tolist()) == (torch.float32, [2.0, 4.0])
    assert (y.dtype, y.item()) == (torch.int64, 1)
    assert len(as_data(np.zeros((5, 2)), "train")) == 5
    assert len(as_data([(1, 2), (3, 4), (5, 6)], "train")) == 3


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ((np.zeros(3), np.zeros(4)), r"differ in length: \[3, 4\]"),
        ((np.array(["a", "b"]), np.zeros(2)), "can't become a tensor"),
        ((np.array([object()]), np.zeros(1)), "can't become a tensor"),
        ((3, 4), "arrays of equal length"),
        (5, "train is int; it takes a Dataset"),
    ],
)
def test_data_that_can_not_be_is_named(data: Any, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        as_data(data, "train")


def test_a_share_is_set_aside_by_the_seed() -> None:
    data = as_data(np.arange(100.0), "train")
    (train, validation), (_, again) = set_aside(data, 0.2, 7), set_aside(data, 0.2, 7)
    assert (len(train), len(validation)) == (80, 20)
    assert validation.indices == again.indices
    assert not set(train.indices) & set(validation.indices)
    with pytest.raises(OptionError, match="one part empty"):
        set_aside(data, 0.001, 7)


def test_a_loader_of_the_users_stays_as_it_is() -> None:
    loader = DataLoader(TensorDataset(torch.zeros(4)), batch_size=3)
    assert make_loader(loader, 32, shuffle=True, num_workers=0) is loader


def test_optimizers_come_by_name_class_function_or_ready_made() -> None:
    model = nn.Linear(2, 2)
    assert isinstance(make_optimizer("AdamW", model, 0.5), torch.optim.AdamW)
    assert make_optimizer("sgd", model, 0.5).param_groups[0]["lr"] == 0.5
    assert make_optimizer(torch.optim.SGD, model, None).param_groups[0]["lr"] == 1e-3
    assert isinstance(make_optimizer(lambda p: torch.optim.SGD(p, lr=1), model, None), torch.optim.SGD)
    own = torch.optim.SGD(model.parameters(), lr=1)
    assert make_optimizer(own, model, None) is own


def make_sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters)


@pytest.mark.parametrize(
    ("optimizer", "rate", "said"),
    [
        ("adamv", None, "did you mean 'adam"),
        (5, None, "it takes a name"),
        (torch.optim.SGD(nn.Linear(1, 1).parameters()), None, "not the model's"),
        (make_sgd, 0.1, "no parameter `lr`"),
    ],
)
def test_optimizers_that_can_not_be_are_refused(optimizer: Any, rate: float | None, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        make_optimizer(optimizer, nn.Linear(2, 2), rate)


@pytest.mark.parametrize("name", ["cosine", "linear", "one_cycle"])
def test_named_schedulers_end_near_zero_after_all_steps(name: str) -> None:
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    scheduler = make_scheduler(name, optimizer, 20)
    assert scheduler is not None
    for _ in range(20):
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] < 1e-3


def test_schedulers_that_can_not_be_are_refused() -> None:
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    for scheduler, steps, said in [
        ("cosin", 5, "did you mean 'cosine'"),
        ("cosine", None, "known length"),
        (torch.optim.lr_scheduler.ReduceLROnPlateau, 5, "ReduceLROnPlateau"),
        (lambda optimizer: None, 5, "scheduler takes"),
    ]:
        with pytest.raises(OptionError, match=said):
            make_scheduler(scheduler, optimizer, steps)
    assert make_scheduler("constant", optimizer, 5) is None


def test_a_model_may_be_made_by_a_function() -> None:
    assert isinstance(make_model(lambda: nn.Linear(1, 1)), nn.Linear)
    with pytest.raises(OptionError, match="model is 3"):
        make_model(lambda: 3)


def test_a_named_loss_takes_the_logits_of_an_output_object() -> None:
    class Output(NamedTuple):
        logits: torch.Tensor

    class WithLogits(nn.Module):
        def forward(self, x: torch.Tensor) -> Output:
            return Output(x)

    scores, labels = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    value, outputs, _ = forward(WithLogits(), NamedLoss("cross_entropy"), {"x": scores, "labels": labels})
    assert torch.equal(outputs, scores)
    assert torch.equal(value, F.cross_entropy(scores, labels))


def test_a_models_own_loss_is_used_when_asked_for() -> None:
    class WithLoss(nn.Module):
        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": (x - labels).sum()}

    assert forward(WithLoss(), own_loss, {"x": torch.ones(2), "labels": torch.zeros(2)})[0].item() == 2.0
    with pytest.raises(OptionError, match="one element"):
        forward(nn.Identity(), lambda outputs, targets: outputs, torch.ones(3))


ONE_RANK = """
import json, sys, torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from jtrain.worker.evaluation import evaluate
from jtrain.worker.losses import NamedLoss

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
model, inputs, targets = nn.Linear(3, 4), torch.randn(37, 3), torch.randint(4, (37,))
model, loader = accelerator.prepare(model, DataLoader(TensorDataset(inputs, targets), batch_size=5))
metrics = {"two": lambda outputs, targets: 2}
print(json.dumps(evaluate(accelerator, model, loader, NamedLoss("cross_entropy"), metrics)))
accelerator.end_training()
"""


def test_two_ranks_count_every_validation_sample_once() -> None:
    # 37 samples in batches of 5 on 2 ranks: the last batches are filled up with samples from the start.
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    shared |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", ONE_RANK],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    found = [json.loads(rank.communicate(timeout=100)[0].splitlines()[-1]) for rank in ranks]
    torch.manual_seed(0)
    model, inputs, targets = nn.Linear(3, 4), torch.randn(37, 3), torch.randint(4, (37,))
    with torch.no_grad():
        outputs = model(inputs)
    assert found[0] == found[1]
    assert found[0]["loss"] == pytest.approx(F.cross_entropy(outputs, targets).item(), rel=1e-5)
    assert found[0]["accuracy"] == pytest.approx((outputs.argmax(1) == targets).float().mean().item())
    assert found[0]["two"] == 2


def test_empty_validation_data_is_refused() -> None:
    with pytest.raises(OptionError, match="empty"):
        evaluate(Accelerator(cpu=True), nn.Linear(1, 1), [], NamedLoss("mse"))
