"""`Recorder.log`: what it takes, what it refuses, and that nothing gets lost."""

from __future__ import annotations

import decimal
import math
import os
import resource
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.utils.data import DataLoader, Dataset

from jtrain.store.series import SeriesReader
from jtrain.worker import recorder as recorder_module
from jtrain.worker import values as values_module
from jtrain.worker.recorder import Recorder


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with_folder = Recorder(tmp_path / "rank-0")
    yield with_folder
    with_folder.close()


def written(recorder: Recorder, name: str) -> list[float]:
    return SeriesReader(recorder.folder).read(name)["value"].tolist()


def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, 0.5),
        (3, 3.0),
        (True, 1.0),
        (math.inf, math.inf),
        (-(10**400), -math.inf),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7.0),
        (np.bool_(True), 1.0),
        (np.array([[2.5]]), 2.5),
        (torch.tensor(0.5), 0.5),
        (torch.tensor([[4]]), 4.0),
        (torch.tensor(True), 1.0),
        (torch.tensor(0.5, dtype=torch.bfloat16), 0.5),
        (torch.tensor(2.0, requires_grad=True), 2.0),
        (torch.nn.Parameter(torch.tensor([1.5])), 1.5),
        (decimal.Decimal("0.25"), 0.25),
    ],
)
def test_every_kind_of_number_is_recorded(recorder: Recorder, value: object, expected: float) -> None:
    recorder.log("loss", value, 1)
    recorder.close()
    assert written(recorder, "loss") == [expected]


def test_nan_is_recorded_as_nan(recorder: Recorder) -> None:
    for value in (math.nan, torch.tensor(math.nan), np.float16("nan")):
        recorder.log("loss", value, 1)
    recorder.close()
    assert [math.isnan(value) for value in written(recorder, "loss")] == [True] * 3


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("0.5", TypeError),
        (b"1", TypeError),
        (None, TypeError),
        (1j, TypeError),
        ([0.5], TypeError),
        ({"a": 1}, TypeError),
        (torch.ones(2, 3), ValueError),
        (torch.ones(0), ValueError),
        (torch.tensor(1j), TypeError),
        (torch.ones((), device="meta"), TypeError),
        (np.ones(3), ValueError),
        (np.array("text"), TypeError),
        (np.datetime64("2026-01-01"), TypeError),
    ],
)
def test_what_is_not_one_number_is_refused_with_its_name(
    recorder: Recorder, value: object, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"metric 'val/acc' was given .*it takes a number"):
        recorder.log("val/acc", value, 1)


@pytest.mark.parametrize(
    ("name", "step"), [("loss", 0.5), ("loss", None), ("loss", 2**63), ("", 1), (None, 1), (["a"], 1)]
)
def test_a_step_or_name_that_can_not_be_is_refused_at_once(recorder: Recorder, name: object, step: object) -> None:
    with pytest.raises((TypeError, ValueError), match=r"step|name"):
        recorder.log(name, 0.5, step)  # type: ignore[arg-type]


def test_a_name_with_half_a_surrogate_pair_does_not_break_the_file(recorder: Recorder) -> None:
    recorder.log("odd \ud800", 0.5, np.int32(3))
    recorder.log("loss", 0.5, 3)
    recorder.close()
    assert SeriesReader(recorder.folder).names() == ["odd ?", "loss"]


def test_a_tensor_is_recorded_as_it_was_when_logged(recorder: Recorder) -> None:
    loss = torch.tensor(1.0)
    recorder.log("loss", loss, 1)
    loss.zero_()
    recorder.close()
    assert written(recorder, "loss") == [1.0]


def test_values_are_on_disk_soon_and_in_order_without_closing(recorder: Recorder) -> None:
    for step in range(1000):
        recorder.log("loss", float(step), step)
    wait_until(lambda: len(written(recorder, "loss")) == 1000)
    assert written(recorder, "loss") == [float(step) for step in range(1000)]


def test_no_thread_runs_before_the_first_value_or_after_closing(tmp_path: Path) -> None:
    before = threading.active_count()
    recorder = Recorder(tmp_path)
    assert threading.active_count() == before
    recorder.log("loss", 1.0, 1)
    assert threading.active_count() == before + 1
    recorder.close()
    recorder.close()
    assert threading.active_count() == before
    recorder.log("loss", 2.0, 2)
    recorder.close()
    assert written(recorder, "loss") == [1.0, 2.0]


def test_a_print_without_newline_is_soon_in_the_log(tmp_path: Path) -> None:
    program = """
import pathlib, sys, time
from jtrain.worker.recorder import Recorder
Recorder(pathlib.Path(sys.argv[1])).log("loss", 1.0, 1)
print("half a line", end="")
sys.stdin.read()
"""
    with open(tmp_path / "out", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "rank-0")], stdin=subprocess.PIPE, stdout=log
        )
    assert process.stdin is not None
    try:
        wait_until(lambda: (tmp_path / "out").read_text() == "half a line", 60)
    finally:
        process.stdin.close()
        process.wait()


class LoggingDataset(Dataset[int]):
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[int, int]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.recorder.log("from worker", 1.0, index)
            self.recorder.flush()
        return index, len(caught)


def test_logging_in_a_dataloader_worker_is_ignored_with_one_warning(recorder: Recorder) -> None:
    recorder.log("loss", 1.0, 1)
    warned = 0
    for _, caught in DataLoader(LoggingDataset(recorder), num_workers=2, batch_size=2):
        warned += int(caught.sum())
        recorder.log("loss", 2.0, 2)
    recorder.close()
    assert SeriesReader(recorder.folder).names() == ["loss"]
    assert written(recorder, "loss") == [1.0, 2.0, 2.0, 2.0, 2.0]
    assert warned == 2


def test_forks_at_any_instant_neither_hang_nor_write_twice(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, flush_interval_s=0.0001)
    for step in range(150):
        recorder.log("loss", float(step), step)
        child = os.fork()
        if child == 0:
            recorder.flush()
            recorder.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    recorder.close()
    assert written(recorder, "loss") == [float(step) for step in range(150)]


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Lets files grow to so many bytes only; the system's own refusal, as for a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda limit: resource.setrlimit(resource.RLIMIT_FSIZE, (soft if limit < 0 else limit, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_once_and_loses_nothing(tmp_path: Path, full_disk: Callable[[int], None]) -> None:
    notices: list[str] = []
    recorder = Recorder(tmp_path, on_notice=notices.append)
    recorder.log("loss", 0.0, 0)
    recorder.flush()
    full_disk(60)
    for step in range(1, 100):
        recorder.log("loss", float(step), step)
        recorder.flush()
    assert written(recorder, "loss") == [0.0, 1.0]
    full_disk(-1)
    recorder.close()
    assert written(recorder, "loss") == [float(step) for step in range(100)]
    assert len(notices) == 2
    assert str(tmp_path) in notices[0]
    assert notices[1] == "metrics are written again"


def test_points_kept_for_a_full_disk_are_bounded(
    tmp_path: Path, full_disk: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "MAX_HELD", 100)
    recorder = Recorder(tmp_path, on_notice=lambda sentence: None)
    recorder.log("loss", 0.0, 0)
    recorder.flush()
    full_disk(24)
    for step in range(1, 1000):
        recorder.log("loss", float(step), step)
        recorder.flush()
    full_disk(-1)
    recorder.close()
    values = written(recorder, "loss")
    assert len(values) <= 101
    assert values == sorted(values)
    assert values[-1] > 900


class SlowDevice:
    """Stands in for PinnedCopy: a value that is ready when the test says so."""

    made: list[SlowDevice]

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.is_done = False
        self.made.append(self)

    def is_ready(self) -> bool:
        return self.is_done

    def read(self) -> float:
        return 0.25


def test_a_device_value_is_not_read_before_the_device_is_done(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    SlowDevice.made = []
    monkeypatch.setattr(values_module, "PinnedCopy", SlowDevice)
    with FakeTensorMode():  # any read of a fake tensor raises
        for step in range(2):
            recorder.log("loss", torch.ones((), device="cuda"), step)
    recorder.log("lr", 0.1, 0)
    recorder.flush(wait=False)
    assert written(recorder, "loss") == []
    SlowDevice.made[0].is_done = True
    recorder.flush(wait=False)
    assert written(recorder, "loss") == [0.25]
    recorder.flush()
    assert written(recorder, "loss") == [0.25, 0.25]
    assert written(recorder, "lr") == [0.1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_value_is_recorded_without_synchronising(recorder: Recorder) -> None:
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss = torch.ones((), device="cuda")
        for step in range(100):
            recorder.log("loss", loss, step)
            loss.add_(1.0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    recorder.close()
    assert written(recorder, "loss") == [float(step + 1) for step in range(100)]


def test_a_stream_of_the_users_that_can_not_be_flushed_does_no_harm(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", object())
    recorder.log("loss", 1.0, 1)
    recorder.flush()
    assert written(recorder, "loss") == [1.0]
