"""GPUPicker without a browser: the choice, what tiles say, and a thread that lives only while somebody looks."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import traitlets

import jtrain
from jtrain.domain.devices import SIMULATED_PREFIX
from jtrain.errors import StoreError
from jtrain.store.choice import read_choice, write_choice
from jtrain.view.machine import MACHINE
from jtrain.widgets import pulse
from jtrain.widgets.picker import GPUPicker
from tests.devices.conftest import SetState, simulate  # noqa: F401 - a fixture

UUIDS = [f"{SIMULATED_PREFIX}0000-0000-0000-{index:012d}" for index in range(4)]
GPU: dict[str, Any] = {
    "name": "NVIDIA Test 9000",
    "load": 40,
    "memory_used": 1 << 30,
    "memory_total": 4 << 30,
    "temperature": 51,
    "power": 90.5,
}


@pytest.fixture
def picker(simulate: SetState) -> GPUPicker:  # noqa: F811
    """A picker on a machine with two GPUs."""
    simulate(GPU, GPU)
    return jtrain.GPUPicker()


def tiles(picker: GPUPicker) -> list[dict[str, Any]]:
    """What its tiles say now."""
    time.sleep(0.6)  # a reading serves everybody for half a second
    picker._tick()
    return picker.shown["tiles"]


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "jtrain-picker"]


def wait_for(is_true: Any, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# The choice ------------------------------------------------------------------------------------------------------


def test_what_is_chosen_is_written_observed_and_read_back(picker: GPUPicker, own_store: Path) -> None:
    heard = []
    picker.observe(lambda change: heard.append((change["new"], read_choice(own_store))), "chosen")
    picker.toggle(UUIDS[1])
    picker.toggle(UUIDS[0])
    assert picker.value == picker.chosen == read_choice(own_store) == [UUIDS[1], UUIDS[0]]
    assert heard == [([UUIDS[1]],) * 2, ([UUIDS[1], UUIDS[0]],) * 2], "observers find the choice in the store"
    picker.toggle(UUIDS[1])
    assert picker.value == [UUIDS[0]]
    picker.value = []
    assert read_choice(own_store) == []


def test_two_pickers_and_the_sidebar_share_one_choice(picker: GPUPicker, own_store: Path) -> None:
    other = jtrain.GPUPicker()
    picker.toggle(UUIDS[0])
    assert other.value == [UUIDS[0]]
    write_choice(own_store, [UUIDS[1]])
    assert picker.value == other.value == [UUIDS[1]]
    other.toggle(UUIDS[0])
    assert picker.value == [UUIDS[1], UUIDS[0]]


def test_what_is_no_device_is_refused(picker: GPUPicker, own_store: Path) -> None:
    picker.toggle(UUIDS[0])
    with pytest.raises(traitlets.TraitError, match="UUID of a device"):
        picker.chosen = ["../../etc/passwd"]
    assert picker.value == read_choice(own_store) == [UUIDS[0]]


def test_a_choice_that_cant_be_written_is_told_and_not_shown(
    picker: GPUPicker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr("jtrain.widgets.picker.write_choice", fail)
    picker._hear({"toggle": UUIDS[0]})
    picker._tick()
    assert (picker.chosen, picker.shown["problem"]) == ([], "the disk is full")


@pytest.mark.parametrize("content", [None, [], {"toggle": 7}, {"toggle": "<img>"}, {"view": 3}, {"toggle": "a" * 999}])
def test_what_a_strange_front_end_sends_does_no_harm(picker: GPUPicker, content: Any) -> None:
    picker._handle_custom_msg(content, [])
    assert picker.value == []


# Tiles -----------------------------------------------------------------------------------------------------------


def test_a_tile_says_what_a_device_is_and_does(picker: GPUPicker) -> None:
    first, second = tiles(picker)
    assert (first["label"], first["name"], first["mark"]) == ("GPU 0", "NVIDIA Test 9000 (simulated)", "simulated")
    assert (first["load"]["share"], first["load"]["text"]) == (0.4, "40 %")
    assert (first["memory"]["share"], first["memory"]["text"]) == (0.25, "1 of 4 GiB")
    assert [figure["text"] for figure in first["figures"]] == ["51 °C", "90 W"]
    assert (first["owner"], first["can_choose"], second["label"]) == ("free", True, "GPU 1")


def test_a_reading_that_isnt_supported_is_na_with_its_reason(
    picker: GPUPicker,
    simulate: SetState,  # noqa: F811
) -> None:
    simulate({**GPU, "power_error": "NVML_ERROR_NOT_SUPPORTED"})
    [tile] = tiles(picker)
    temperature, power = tile["figures"]
    assert (temperature["text"], power["text"]) == ("51 °C", "n/a")
    assert power["reason"]
    assert "n/a" in repr(picker)


def test_a_gpu_that_is_lost_while_watched_says_so_and_the_others_stay_live(
    picker: GPUPicker,
    simulate: SetState,  # noqa: F811
) -> None:
    picker._hear({"view": "a", "present": True})
    wait_for(lambda: [tile["is_lost"] for tile in picker.shown.get("tiles", ())] == [False, False])
    simulate({**GPU, "error": "NVML_ERROR_GPU_IS_LOST"}, {**GPU, "load": 77})
    wait_for(lambda: picker.shown["tiles"][0]["is_lost"])
    lost, other = picker.shown["tiles"]
    picker.close()
    assert (lost["is_lost"], lost["can_choose"]) == (True, False)
    assert "out of order" in lost["note"]
    assert other["load"]["text"] == "77 %"


def test_a_chosen_device_that_is_gone_stays_to_be_unchosen(
    picker: GPUPicker,
    own_store: Path,
    simulate: SetState,  # noqa: F811
) -> None:
    picker.chosen = [UUIDS[3]]
    here, _, gone = tiles(picker)
    assert (here["is_lost"], gone["uuid"], gone["can_choose"]) == (False, UUIDS[3], False)
    assert f"{UUIDS[3]}: chosen, but not here" in repr(picker)
    picker._hear({"toggle": UUIDS[3]})
    assert read_choice(own_store) == []


def test_mig_slices_are_devices_of_their_own(picker: GPUPicker, simulate: SetState) -> None:  # noqa: F811
    simulate({**GPU, "slices": [{"memory_used": 0, "memory_total": 1 << 30}, {"memory_used": 5}]})
    labels = [tile["label"] for tile in tiles(picker)]
    assert labels == ["MIG slice 0:0", "MIG slice 0:1"]
    picker.toggle(tiles(picker)[1]["uuid"])
    assert picker.value[0].startswith("MIG-")


def test_a_process_that_uses_a_device_is_named(picker: GPUPicker, simulate: SetState) -> None:  # noqa: F811
    simulate({**GPU, "processes": [{"pid": 2**22 + 7, "memory": 1 << 30}]})
    [tile] = tiles(picker)
    assert (tile["is_free"], tile["owner"]) == (False, f"a process (pid {2**22 + 7})")


def test_devices_hidden_by_cuda_visible_devices_cant_be_chosen(
    picker: GPUPicker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    first, second = tiles(picker)
    assert (first["can_choose"], second["can_choose"]) == (False, True)
    assert "CUDA_VISIBLE_DEVICES" in first["note"]


def test_without_a_gpu_it_says_so_kindly_and_shows_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JTRAIN_SIMULATE_GPUS", "0")
    picker = jtrain.GPUPicker()
    assert tiles(picker) == []
    assert "runs use the CPU" in picker.shown["no_gpu"]
    assert [meter["label"] for meter in picker.shown["host"]] == ["CPU", "RAM"]
    assert "runs use the CPU" in repr(picker)


# Its thread ------------------------------------------------------------------------------------------------------


def test_readings_are_taken_only_while_a_view_is_there(picker: GPUPicker) -> None:
    assert threads() == [], "nobody looks yet"
    picker._hear({"view": "a", "present": True})
    picker._hear({"view": "b", "present": True})
    wait_for(lambda: picker.shown)
    assert len(threads()) == 1
    picker._hear({"view": "a", "present": False})
    time.sleep(0.3)
    assert len(threads()) == 1, "the other view still looks"
    picker._hear({"view": "b", "present": False})
    wait_for(lambda: not threads())
    assert MACHINE._sampler is None, "the driver is let go of"
    picker._hear({"view": "a", "present": True})
    assert len(threads()) == 1
    picker.close()
    wait_for(lambda: not threads())


def test_a_view_that_went_without_a_word_is_forgotten(picker: GPUPicker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "PATIENCE_S", 0.5)
    picker._hear({"view": "a", "present": True})
    wait_for(lambda: not threads(), timeout_s=5)


def test_a_closed_picker_starts_no_thread(picker: GPUPicker) -> None:
    picker.close()
    picker._hear({"view": "a", "present": True})
    assert threads() == []
    assert "GPU 0" in repr(picker)
