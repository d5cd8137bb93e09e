"""The adaptive trainer in real runs: from outside, inside a cell, from a YAML config, paused and resumed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset

import jtrain
from jtrain.config import parse_config
from jtrain.domain.states import State
from jtrain.errors import ConfigError, JtrainError, OptionError, WorkerError
from jtrain.fitting import run_config, split_options
from jtrain.run import Run
from jtrain.worker.fit import divide_batch
from tests.cells import start

pytestmark = pytest.mark.timeout(120)

ON_TWO = {"gpus": "none", "nproc": 2, "seed": 3}


def digits() -> tuple[Any, Any]:
    images, labels = load_digits(return_X_y=True)
    return images / 16, labels


def net(dropout: float = 0.0) -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(dropout), nn.Linear(64, 10))


def test_it_trains_a_classifier_on_two_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    result = jtrain.fit(
        model=net(),
        train=digits(),
        validation=0.25,
        epochs=6,
        learning_rate=5e-3,
        log_interval=10,
        metrics={"sharpness": lambda outputs, targets: outputs.softmax(-1).amax(-1).mean()},
        **ON_TWO,
    )
    assert sorted(result.history) == ["loss", "val/accuracy", "val/loss", "val/sharpness"]
    assert [len(values) for values in result.history.values()] == [6] * 4
    assert result.history["val/accuracy"][-1] > 0.9
    assert result.best["val/loss"] == min(result.history["val/loss"])
    images, labels = map(torch.as_tensor, digits())
    assert (result.model(images.float()).argmax(1) == labels).float().mean() > 0.9
    run = jtrain.last_run()
    assert run.metrics["val/loss"].tolist() == pytest.approx(result.history["val/loss"])
    steps = 6 * -(-1348 // 64)  # 1348 samples in batches of 32 on two ranks
    assert run.metrics.steps("loss").tolist() == list(range(1, steps + 1))
    printed = capsys.readouterr().out
    assert "epoch 1/6  step 10  loss" in printed
    assert "finished" in printed


class SlowData(Dataset[Any]):
    """Regression data that takes its time, so that a run can be paused in the middle."""

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s
        self.inputs = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(self.pause_s)
        return self.inputs[index], self.inputs[index].sum()


def train_slowly(pause_s: float) -> Run:
    return jtrain.fit(
        model=lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 1)),
        train=SlowData(pause_s),
        validation=SlowData(0.0),
        loss="mse",
        scheduler="cosine",
        epochs=4,
        batch_size_per_gpu=3,
        learning_rate=0.01,
        accumulate=3,
        background=True,
        **ON_TWO,
    )


def test_a_paused_training_goes_on_to_the_same_end_to_the_bit() -> None:
    straight, broken = train_slowly(0.0), train_slowly(0.02)
    deadline = time.monotonic() + 60
    while broken.progress.micro_step < 14:  # in the second epoch, with 10 batches each
        assert time.monotonic() < deadline
        time.sleep(0.01)
    broken.pause()
    assert broken.wait(timeout=60) is State.PAUSED
    broken.resume()
    expected, found = straight.result(timeout=60), broken.result(timeout=60)
    assert len(broken.attempts) == 2
    assert found.history == expected.history
    assert len(found.history["val/loss"]) == 4
    for mine, theirs in zip(found.model.parameters(), expected.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert broken.metrics["loss"].tolist() == straight.metrics["loss"].tolist()
    assert broken.metrics["val/loss"].tolist() == found.history["val/loss"]


def test_the_effective_batch_and_schedule_do_not_depend_on_the_number_of_ranks() -> None:
    images, labels = digits()
    whole_batches, model = (images[: 28 * 64], labels[: 28 * 64]), net()
    histories = []
    for nproc, batch_size in ((1, 64), (1, 16), (2, 16)):
        result = jtrain.fit(
            model=model,
            train=whole_batches,
            validation=whole_batches,
            epochs=1,
            batch_size_per_gpu=batch_size,
            effective_batch_size=64,
            scheduler="linear",
            learning_rate=3e-3,
            gpus="none",
            nproc=nproc,
            seed=3,
        )
        assert jtrain.last_run().metrics.last("learning_rate") == 0
        histories.append((result.history["val/loss"][0], len(jtrain.last_run().metrics["loss"])))
    assert {steps for _, steps in histories} == {28}
    losses = [loss for loss, _ in histories]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-4)


@pytest.mark.parametrize(
    ("effective", "largest", "world_size", "expected"),
    [(64, 32, 2, (32, 1)), (256, 32, 2, (32, 4)), (96, 32, 2, (24, 2)), (8, 32, 8, (1, 1)), (64, 64, 1, (64, 1))],
)
def test_an_effective_batch_is_divided_over_ranks_and_time(
    effective: int, largest: int, world_size: int, expected: tuple[int, int]
) -> None:
    assert divide_batch(effective, largest, world_size) == expected


def test_an_effective_batch_that_can_not_be_shared_is_refused() -> None:
    with pytest.raises(OptionError, match="65 can't be shared by 2 ranks; 64 can"):
        divide_batch(65, 32, 2)


def test_inside_a_cell_it_trains_in_the_cells_run() -> None:
    run = start(
        "import jtrain\n"
        "result = jtrain.fit(model=net(), train=data, epochs=2, batch_size_per_gpu=64)\n"
        "steps = run.global_step",
        {"net": net, "data": digits(), "__name__": "__main__"},
        outputs=("result", "steps"),
    )
    values = run.result(timeout=60)
    assert values["steps"] == 2 * 15
    assert len(values["result"].history["loss"]) == 2


def test_inside_a_cell_it_trains_what_the_runs_config_says(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(CONFIG)
    run = start(
        "import jtrain\nresult = jtrain.fit(epochs=2)",
        config=str(tmp_path / "train.yaml"),
        set=("training.gradient_accumulation_steps=4",),
        outputs=("result",),
    )
    result = run.result(timeout=60)["result"]
    assert len(result.history["val/loss"]) == 2
    assert len(run.metrics["loss"]) == 2 * -(-23 // 4)  # 1438 samples in batches of 32 on two ranks


def test_a_config_read_too_late_to_be_obeyed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(CONFIG.replace("seed: 1", "seed: 1, accumulate: 8"))
    run = start(f"import jtrain\njtrain.fit({str(tmp_path / 'train.yaml')!r})", nproc=1)
    with pytest.raises(WorkerError, match="wants accumulate=8, but this run has 1"):
        run.result(timeout=60)


def test_under_another_launcher_it_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(JtrainError, match="starts its own processes"):
        jtrain.fit(model=1, train=2)


def test_inside_a_cell_options_of_the_run_are_refused() -> None:
    run = start("import jtrain\njtrain.fit(model=1, train=2, nproc=4)", nproc=1)
    with pytest.raises(WorkerError, match="nproc: inside a run these are decided"):
        run.result(timeout=60)


CONFIG = """
model: {name: "torch.nn:Linear", args: {in_features: 64, out_features: 10}}
data: {train: {name: "sklearn.datasets:load_digits", args: {return_X_y: true}}, validation: 0.2}
training:
  loss: {name: cross_entropy, args: {label_smoothing: 0.1}}
  optimizer: {name: sgd, args: {momentum: 0.9}}
  scheduler: cosine
  learning_rate: 1e-3
  batch_size_per_gpu: 32
  epochs: 1
resource: {gpus: none, seed: 1}
"""


@pytest.mark.parametrize("nproc", [1, 2])
def test_a_config_trains_unchanged_on_one_rank_or_two(nproc: int) -> None:
    config = parse_config(CONFIG, "train.yaml", ["training.epochs=3", "model.args.bias=false"])
    result = run_config(config, nproc=nproc).result(timeout=60)
    assert result.history["val/accuracy"][-1] > 0.8
    assert result.model.bias is None
    assert len(result.history["loss"]) == 3


def test_a_config_finds_modules_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_parts.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Linear): pass\n"
        "def data(count): return torch.ones(count, 2), torch.ones(count)\n"
        "def loss(outputs, targets): return ((outputs[:, 0] - targets) ** 2).mean()\n"
    )
    monkeypatch.chdir(tmp_path)
    config = parse_config(
        "model: {name: my_parts:Net, args: {in_features: 2, out_features: 1}}\n"
        "data: {train: {name: my_parts.data, args: {count: 50}}}\n"
        "training: {loss: my_parts:loss, optimizer: torch.optim:SGD, learning_rate: 0.1}\n"
        "resource: {gpus: none, nproc: 1}\n"
    )
    result = run_config(config).result(timeout=60)
    assert type(result.model).__name__ == "Net"


def test_a_config_may_name_what_the_notebook_has_defined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = __import__("__main__")
    monkeypatch.setattr(main, "my_net", net, raising=False)
    monkeypatch.setattr(main, "my_data", digits(), raising=False)
    (tmp_path / "train.yaml").write_text("model: my_net\ndata: my_data\nresource: {gpus: none, nproc: 1}\n")
    result = jtrain.fit(tmp_path / "train.yaml", set="training.log_interval=7", epochs=2)
    assert len(result.history["loss"]) == 2
    assert jtrain.last_run().spec.config["training"] == {"log_interval": 7}
    assert jtrain.last_run().spec.config["model"] == {"name": "my_net"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model: torch.nn:Liner\ndata: x.y:z\n", "did you mean Linear"),
        ("model: {name: 'torch.nn:Linear', args: {in_feature: 3}}\ndata: a:b\n", "it is called as Linear(in_features"),
        ("data: {train: 'sklearn.datasets:load_digits'}\n", "no section `model`"),
        ("model: torch.nn:Identity\ndata: a_dataset_nobody_made\n", "nothing is called 'a_dataset_nobody_made'"),
    ],
)
def test_a_config_that_names_nothing_fails_with_the_nearest_name(text: str, said: str) -> None:
    run = run_config(parse_config(f"{text}resource: {{gpus: none, nproc: 1}}\n"))
    with pytest.raises(WorkerError) as caught:
        run.result(timeout=60)
    assert said in str(caught.value)
    assert caught.value.type_name == ConfigError.__name__


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"modle": 1}, "no option 'modle'; did you mean 'model'"),
        ({"learning_rat": 1}, "did you mean 'learning_rate'"),
        ({"nprocs": 2}, "did you mean 'nproc'"),
        ({"epochs": 3, "nproc": 2}, "needs model and train"),
    ],
)
def test_options_that_can_not_be_are_refused_before_anything_starts(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        jtrain.fit(**options)


def test_the_configs_words_for_run_options_are_understood() -> None:
    training, of_run = split_options({"epochs": 2, "use_mixed_precision": True, "gradient_accumulation_steps": 4})
    assert training == {"epochs": 2}
    assert of_run == {"precision": "bf16", "accumulate": 4}
