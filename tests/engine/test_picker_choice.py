"""`--gpus picker`: real runs on the chosen (simulated) devices, from every door."""

from __future__ import annotations

from pathlib import Path

import pytest

import jtrain
from jtrain.domain.devices import SIMULATED_PREFIX
from jtrain.errors import DeviceError
from jtrain.launching import launch_script, plan_cell
from jtrain.options import make_options
from jtrain.store.choice import write_choice
from jtrain.store.runs import RunStore
from tests.cells import start

CHOSEN = [f"{SIMULATED_PREFIX}0000-0000-0000-{index:012d}" for index in (2, 0)]


@pytest.fixture(autouse=True)
def simulated_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JTRAIN_SIMULATE_GPUS", "4")


def test_a_cell_runs_on_exactly_the_chosen_devices(own_store: Path) -> None:
    write_choice(own_store, CHOSEN)
    run = start("x = run.world_size", gpus="picker", nproc=None, outputs="x")
    assert run.result(timeout=90) == {"x": 2}
    assert list(run.standing.devices) == CHOSEN
    assert run.spec.options.gpus == ",".join(CHOSEN), "a resumed run shall not depend on what is chosen then"


def test_launched_functions_and_scripts_take_the_choice_too(own_store: Path, tmp_path: Path) -> None:
    write_choice(own_store, CHOSEN[:1])
    (tmp_path / "script.py").write_text("print('done')")
    for run in (
        jtrain.launch(lambda: 7, gpus="picker"),
        launch_script(tmp_path / "script.py", (), make_options(gpus="picker")),
    ):
        run.wait(timeout=90)
        assert list(run.standing.devices) == CHOSEN[:1]


def test_a_dry_run_shows_the_chosen_devices(own_store: Path) -> None:
    write_choice(own_store, CHOSEN)
    plan = plan_cell("pass", {}, make_options(gpus="picker"))
    assert plan.want.candidates == tuple(CHOSEN)


def test_without_a_choice_nothing_is_started() -> None:
    with pytest.raises(DeviceError, match="no device is chosen"):
        start("pass", gpus="picker", nproc=None)
    assert RunStore().list() == []


def test_a_chosen_device_that_is_gone_is_named(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_choice(own_store, CHOSEN)
    monkeypatch.setenv("JTRAIN_SIMULATE_GPUS", "2")
    with pytest.raises(DeviceError, match=rf"{CHOSEN[0]} was chosen.* are 2 GPUs: 0, 1"):
        start("pass", gpus="picker", nproc=None)
