"""YAML configs: what they may say, and how wrong ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from jtrain.config import Config, load_config, parse_config
from jtrain.config.parts import find_object
from jtrain.errors import ConfigError

WHOLE = """\
model:
  name: torch.nn:Linear
  args: {in_features: 64, out_features: 10}
data:
  train: {name: "sklearn.datasets:load_digits", args: {return_X_y: true}}
  validation: 0.25
training:
  loss: cross_entropy
  optimizer: {name: sgd, args: {momentum: 0.9}}
  epochs: 3
  batch_size_per_gpu: 64
  learning_rate: 3e-4
  log_interval: 10
  use_mixed_precision: bf16
  gradient_accumulation_steps: 2
resource:
  nproc: 2
  gpus: 0,2
"""


def refusal(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "train.yaml", overrides)
    return str(caught.value)


def test_a_whole_config_is_read(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(WHOLE)
    config = load_config(tmp_path / "train.yaml")
    assert config.model is not None
    assert config.model.args == {"in_features": 64, "out_features": 10}
    assert config.data is not None
    assert config.data.validation == 0.25
    assert config.training.optimizer.name == "sgd"
    assert config.training.loss.name == "cross_entropy"
    assert config.training.learning_rate == 3e-4
    assert config.run_options() == {"nproc": 2, "gpus": config.resource.gpus, "precision": "bf16", "accumulate": 2}
    assert parse_config("", "x").as_dict() == {}
    assert parse_config("training:\nmodel:\n").training.epochs == 1
    assert config.as_dict()["training"]["epochs"] == 3


def test_overrides_replace_and_add() -> None:
    config = parse_config(
        WHOLE,
        "train.yaml",
        ["training.learning_rate=1e-2", "model.args.bias=false", "training.loss.args.label_smoothing=0.1"],
    )
    assert config.training.learning_rate == 0.01
    assert config.model is not None
    assert config.model.args == {"in_features": 64, "out_features": 10, "bias": False}
    assert config.training.loss.model_dump() == {"name": "cross_entropy", "args": {"label_smoothing": 0.1}}
    assert parse_config("", "x", ["data.train=digits"]).data is not None


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("3e-4", 3e-4),
        ("1E5", 1e5),
        ("1e+3", 1000.0),
        ("-.5", -0.5),
        (".inf", float("inf")),
        ("12", 12),
        ("010", 10),
        ("0x1f", 31),
        ("0o17", 15),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("0:30", "0:30"),
        ("2026-01-01", "2026-01-01"),
        ("1_000", "1_000"),
        ("true", True),
        ("~", None),
        ("", None),
        ("'3e-4'", "3e-4"),
        ("0,2", "0,2"),
    ],
)
def test_scalars_mean_what_they_look_like(scalar: str, value: object) -> None:
    config = parse_config("model: {name: m, args: {}}\ndata: {train: x}\n", overrides=[f"model.args.x={scalar}"])
    assert config.model is not None
    assert config.model.args["x"] == value
    assert type(config.model.args["x"]) is type(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "training:\n  epochs: 3\n  lerning_rate: 1\n",
            "line 3: unknown key training.lerning_rate; did you mean learning_rate?",
        ),
        ("trianing: {epochs: 1}\n", "line 1: unknown key trianing; did you mean training?"),
        ("epochs: 3\n", "line 1: unknown key epochs; epochs belongs in the section training"),
        (
            "resource:\n  nproc: 1\n  epochs: 3\n",
            "line 3: unknown key resource.epochs; epochs belongs in the section training",
        ),
        ("resource:\n  checkpoint-every: 3steps\n", "did you mean checkpoint_every?"),
        ("model:\n  name: a:B\n  arg: {}\n", "line 3: unknown key model.arg; did you mean args?"),
        ("training:\n  loss:\n    nam: x\n", "line 3: unknown key training.loss.nam; did you mean name?"),
        ("training:\n\n  epochs: three\n", "line 3: training.epochs is 'three': input should be a valid integer"),
        ("training:\n  epochs: 0\n", "line 2: training.epochs is 0: input should be greater than or equal to 1"),
        ("training:\n  use_mixed_precision: maybe\n", "line 2: training.use_mixed_precision is 'maybe'"),
        ("data:\n  num_workers: 2\n", "line 1: data.train is missing"),
        (
            "training:\n  epochs: 1\n  epochs: 2\n",
            "line 3: training.epochs is there twice; first at train.yaml, line 2",
        ),
        ("training: {epochs: 1}\ntraining: {epochs: 2}\n", "line 2: training is there twice"),
        (
            "model: !!python/object/apply:os.system [echo]\n",
            "line 1: tag 'tag:yaml.org,2002:python/object/apply:os.system' is not allowed",
        ),
        ("training:\n  epochs: [1\n", "line 3: "),
        ("training: &a {epochs: *b}\n", "line 1: found undefined alias"),
        ("model: &a {name: x, args: {y: *a}}\n", "line 1: model.args.y contains itself"),
        ("- a\n- b\n", "a config is a mapping of sections"),
        ("just text", "a config is a mapping of sections"),
        ("a: 1\n---\nb: 2\n", "line 2: "),
        ("training: 5\n", "line 1: training is 5"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, said: str) -> None:
    message = refusal(text)
    assert message.startswith("train.yaml")
    assert said in message


def test_all_mistakes_are_told_at_once() -> None:
    assert len(refusal("training:\n  epochs: x\n  lr: 1\nresources: {}\n").splitlines()) == 3


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("training.lerning_rate=1", "--set training.lerning_rate=1: unknown key training.lerning_rate; did you mean"),
        ("training.epochs=many", "--set training.epochs=many: training.epochs is 'many'"),
        ("training.epochs", "write it as section.key=value"),
        ("=3", "write it as section.key=value"),
        ("training.epochs.x=3", "training.epochs is 3, which has no keys"),
        ("training.epochs=[1", "--set training.epochs=[1, line 1"),
        ("training.epochs=!!python/name:os.system x", "is not allowed"),
    ],
)
def test_wrong_overrides_are_named(override: str, said: str) -> None:
    assert said in refusal(WHOLE, override)


def test_two_words_for_one_option_must_agree() -> None:
    assert "training.gradient_accumulation_steps says 2, but resource.accumulate says 4" in refusal(
        "training: {gradient_accumulation_steps: 2}\nresource: {accumulate: 4}\n"
    )
    agreeing = parse_config("training: {use_mixed_precision: true}\nresource: {precision: bf16}\n")
    assert agreeing.run_options() == {"precision": "bf16"}
    assert parse_config("training: {use_mixed_precision: false}").run_options() == {"precision": "no"}


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml can't be read as a config: No such file"):
        load_config(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"binary\.yaml"):
        load_config(tmp_path / "binary.yaml")


def test_anchors_and_merges_work() -> None:
    config = parse_config(
        "model: {name: a, args: &base {x: 1, y: 2}}\ndata: {train: {name: b, args: {<<: *base, y: 3}}}\n"
    )
    assert config.data is not None
    assert config.data.train.args == {"x": 1, "y": 3}


def test_names_are_found_in_the_notebook_first_then_ours_then_by_import() -> None:
    known = {"mse": 1}
    assert find_object("mse", "training.loss", known, {"mse": 2}) == 2
    assert find_object("mse", "training.loss", known, {}) == 1
    assert find_object("torch.nn:Linear", "model", known, {}) is torch.nn.Linear
    assert find_object("torch.nn.Linear", "model", known, {}) is torch.nn.Linear
    assert find_object("torch:Tensor.add", "model", known, {}) is torch.Tensor.add


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("torch.nn:Liner", "model: torch.nn has no 'Liner'; did you mean Linear?"),
        ("tourch.nn:Linear", "model: there is no module 'tourch'"),
        ("torch.nnn:Linear", "model: there is no module 'torch.nnn'"),
        ("my_nett", "model: nothing is called 'my_nett'; did you mean my_net?"),
    ],
)
def test_a_name_that_means_nothing_is_refused_with_the_nearest(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_object(name, "model", {"mse": 1}, {"my_net": 2})
    assert said in str(caught.value)


def test_a_module_that_fails_to_import_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needy_module.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="importing needy_module failed: No module named 'not_installed_anywhere'"):
        find_object("needy_module:Net", "model", {}, {})


def test_the_same_config_is_equal_after_a_round_trip() -> None:
    config = parse_config(WHOLE)
    assert Config.model_validate(config.as_dict()).run_options() == config.run_options()
