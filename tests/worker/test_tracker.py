"""Accelerate's own logging feeds a run's metrics, in an unchanged script."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

from jtrain.store.series import SeriesReader
from jtrain.worker.recorder import Recorder
from jtrain.worker.tracker import NAME, install_tracker


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[SeriesReader]:
    recorder = Recorder(tmp_path / "rank-0")
    install_tracker(recorder, tmp_path / "tracker.json")
    yield SeriesReader(recorder.folder)
    recorder.close()
    del LOGGER_TYPE_TO_CLASS[NAME]
    get_available_trackers().remove(NAME)
    AcceleratorState._reset_state(True)


def points(metrics: SeriesReader, name: str) -> list[tuple[int, float]]:
    read = metrics.read(name)
    return list(zip(read["step"].tolist(), read["value"].tolist(), strict=True))


def test_an_unchanged_script_logs_to_the_run(metrics: SeriesReader, tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True, log_with="jtrain")
    accelerator.init_trackers("my project", {"lr": 0.1, "model": {"name": "net", "path": Path("a/b")}})
    for step in range(3):
        accelerator.log({"loss": torch.tensor(step / 2), "val/acc": step}, step=10 * step)
    accelerator.end_training()
    assert points(metrics, "loss") == [(0, 0.0), (10, 0.5), (20, 1.0)]
    assert points(metrics, "val/acc") == [(0, 0.0), (10, 1.0), (20, 2.0)]
    assert json.loads((tmp_path / "tracker.json").read_text()) == {
        "project": "my project",
        "config": {"lr": 0.1, "model": {"name": "net", "path": "a/b"}},
    }


def test_it_stands_beside_other_trackers(metrics: SeriesReader, tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True, log_with=["jtrain", "tensorboard"], project_dir=str(tmp_path / "tb"))
    accelerator.init_trackers("x", {"lr": 0.1})
    accelerator.log({"loss": 0.5}, step=1)
    assert accelerator.get_tracker("jtrain", unwrap=True).folder == metrics.folder
    accelerator.end_training()
    assert points(metrics, "loss") == [(1, 0.5)]
    assert list((tmp_path / "tb").rglob("events*"))


def test_all_trackers_include_it(metrics: SeriesReader, tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True, log_with="all", project_dir=str(tmp_path / "tb"))
    accelerator.init_trackers("x")
    accelerator.log({"loss": 0.5}, step=1)
    accelerator.end_training()
    assert points(metrics, "loss") == [(1, 0.5)]


def test_calls_without_a_step_are_counted(metrics: SeriesReader) -> None:
    accelerator = Accelerator(cpu=True, log_with="jtrain")
    accelerator.init_trackers("x")
    accelerator.log({"loss": 1.0})
    accelerator.log({"loss": 2.0}, step=7)
    accelerator.log({"loss": 3.0})
    accelerator.end_training()
    assert points(metrics, "loss") == [(0, 1.0), (7, 2.0), (8, 3.0)]


def test_what_is_no_number_is_left_out_with_one_warning(metrics: SeriesReader) -> None:
    accelerator = Accelerator(cpu=True, log_with="jtrain")
    accelerator.init_trackers("x")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            accelerator.log({"note": "hello", "nested": {"a": {"loss": 1.0}}, "vector": torch.ones(3)})
    accelerator.end_training()
    assert [str(warning.message)[:36] for warning in caught] == [
        "not recorded by jtrain: metric 'note",
        "not recorded by jtrain: metric 'vect",
    ]
    assert [value for _, value in points(metrics, "nested/a/loss")] == [1.0, 1.0, 1.0]
    assert metrics.names() == ["nested/a/loss"]
