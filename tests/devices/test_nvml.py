"""NVML through a simulated driver: every reading fails alone, and nothing raises."""

import os
from typing import Any

import pytest

from jtrain.devices.nvml import NvmlSource
from jtrain.devices.processes import ProcessNames
from jtrain.devices.sources import SourceError
from jtrain.domain.devices import DeviceSample
from tests.devices.conftest import SetState

GPU: dict[str, Any] = {
    "name": "NVIDIA Test 9000",
    "load": 40,
    "memory_used": 1 << 30,
    "memory_total": 4 << 30,
    "temperature": 51,
    "power": 90.5,
}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def read(source: NvmlSource) -> list[DeviceSample]:
    return source.read(ProcessNames())


def opened(clock: Clock | None = None) -> NvmlSource:
    source = NvmlSource(clock or Clock())
    source.open()
    return source


def test_readings_come_with_their_units(simulate: SetState) -> None:
    simulate(GPU)
    source = opened()
    [device], [sample] = source.devices(), read(source)
    assert (device.kind, device.index, device.name, device.memory_total_bytes) == (
        "gpu",
        "0",
        "NVIDIA Test 9000",
        4 << 30,
    )
    assert [sample.load_percent.value, sample.temperature_celsius.value, sample.power_watts.value] == [40, 51, 90.5]
    assert (sample.memory_used_bytes.value, str(sample.memory_total_bytes)) == (1 << 30, "4 GiB")
    assert sample.uuid == device.uuid


def test_one_unsupported_reading_leaves_the_others_and_is_not_0(simulate: SetState) -> None:
    simulate(GPU | {"power_error": "NVML_ERROR_NOT_SUPPORTED", "load_error": "NVML_ERROR_NO_PERMISSION"})
    [sample] = read(opened())
    assert sample.power_watts.value is None
    assert "doesn't report" in (sample.power_watts.reason or "")
    assert "may not read" in (sample.load_percent.reason or "")
    assert sample.temperature_celsius.value == 51
    assert not sample.is_lost


def test_an_unknown_error_is_given_in_nvmls_own_words(simulate: SetState) -> None:
    simulate(GPU | {"temperature_error": "NVML_ERROR_IRQ_ISSUE"})
    [sample] = read(opened())
    assert sample.temperature_celsius.reason == "NVML says: Interrupt Request Issue"


def test_a_gpu_that_falls_off_the_bus_keeps_its_place(simulate: SetState) -> None:
    simulate(GPU, GPU | {"load": 7})
    source = opened()
    before = [sample.uuid for sample in read(source)]
    simulate({"error": "NVML_ERROR_GPU_IS_LOST"}, GPU | {"load": 7})
    lost, alive = read(source)
    assert [lost.uuid, alive.uuid] == before
    assert (lost.is_lost, alive.is_lost, alive.load_percent.value) == (True, False, 7)
    assert "fallen off the bus" in (lost.load_percent.reason or "")
    assert any("GPU 0" in sentence and "fallen off" in sentence for sentence in source.describe())
    simulate(GPU, GPU | {"load": 7})
    assert [sample.is_lost for sample in read(source)] == [False, False]


def test_a_gpu_that_is_no_longer_counted_is_shown_as_gone(simulate: SetState) -> None:
    simulate(GPU, GPU)
    source = opened()
    uuids = [sample.uuid for sample in read(source)]
    simulate(GPU)
    first, second = read(source)
    assert [first.uuid, second.uuid] == uuids
    assert (first.is_lost, second.is_lost) == (False, True)
    assert "no longer there" in (second.memory_used_bytes.reason or "")


def test_a_gpu_that_was_lost_before_is_reported_and_skipped(simulate: SetState) -> None:
    simulate({"error": "NVML_ERROR_GPU_IS_LOST"}, GPU)
    source = opened()
    assert [device.index for device in source.devices()] == ["1"]
    assert any("GPU 0 can't be used" in sentence for sentence in source.describe())


def test_an_added_gpu_is_seen(simulate: SetState) -> None:
    simulate(GPU)
    source = opened()
    assert len(read(source)) == 1
    simulate(GPU, GPU)
    assert [device.index for device in source.devices()] == ["0", "1"]


def test_mig_slices_stand_in_the_place_of_their_gpu(simulate: SetState) -> None:
    sliced = GPU | {"slices": [{"memory_used": 5, "memory_total": 10}, None, {"memory_used": 6, "memory_total": 10}]}
    simulate(GPU, sliced)
    source = opened()
    devices, samples = source.devices(), read(source)
    assert [(device.kind, device.index) for device in devices] == [("gpu", "0"), ("mig", "1:0"), ("mig", "1:2")]
    assert [device.uuid[:4] for device in devices] == ["GPU-", "MIG-", "MIG-"]
    assert [sample.memory_used_bytes.value for sample in samples[1:]] == [5, 6]
    assert samples[1].load_percent.value is None
    assert "whole GPU only" in (samples[1].power_watts.reason or "")
    assert samples[1].temperature_celsius.value == 51


def test_a_new_mig_layout_is_seen_after_a_while(simulate: SetState) -> None:
    clock = Clock()
    simulate(GPU | {"slices": [{"memory_used": 5, "memory_total": 10}]})
    source = opened(clock)
    assert [device.index for device in source.devices()] == ["0:0"]
    simulate(GPU)
    clock.now += 60
    samples = {sample.uuid[:4]: sample for sample in read(source)}
    assert samples["GPU-"].load_percent.value == 40
    assert samples["MIG-"].is_lost


def test_a_gpu_in_mig_mode_without_slices_is_explained(simulate: SetState) -> None:
    simulate(GPU | {"slices": []})
    source = opened()
    assert source.devices() == []
    assert any("no slices" in sentence for sentence in source.describe())


def test_processes_carry_names_and_users_as_far_as_they_can_be_read(simulate: SetState) -> None:
    ended = 2**22 + 1  # above every system's largest process id
    simulate(GPU | {"processes": [{"pid": os.getpid(), "memory": 9}, {"pid": ended, "memory": None}]})
    [sample] = read(opened())
    own, gone = sample.processes
    assert (own.pid, own.memory_bytes) == (os.getpid(), 9)
    assert own.name is not None
    assert own.user is not None
    assert (gone.memory_bytes, gone.name, gone.user) == (None, None, None)


def test_programs_that_draw_are_told_apart_from_those_that_compute(simulate: SetState) -> None:
    simulate(GPU | {"processes": [{"pid": 7, "memory": 1}], "graphics_processes": [{"pid": 5}, {"pid": 7}]})
    [sample] = read(opened())
    assert [(process.pid, process.kind) for process in sample.processes] == [(5, "graphics"), (7, "compute")]


def test_a_process_list_that_can_not_be_read_has_a_reason(simulate: SetState) -> None:
    simulate(GPU | {"processes_error": "NVML_ERROR_NO_PERMISSION"})
    [sample] = read(opened())
    assert sample.processes == ()
    assert sample.processes_reason == "this user may not read it"


def test_an_old_driver_without_the_newest_functions_is_read(simulate: SetState) -> None:
    missing = [
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetMigMode",
    ]
    simulate(GPU | {"processes": [{"pid": 7, "memory": 3}]}, missing=missing)
    [sample] = read(opened())
    assert sample.memory_used_bytes.value == 1 << 30
    assert [process.memory_bytes for process in sample.processes] == [3]


def test_a_driver_that_fails_as_a_whole_says_why(simulate: SetState) -> None:
    simulate(GPU, error="NVML_ERROR_LIB_RM_VERSION_MISMATCH")
    with pytest.raises(SourceError, match="driver was updated while it was in use"):
        opened()
    simulate(GPU)
    source = opened()
    simulate(GPU, error="NVML_ERROR_DRIVER_NOT_LOADED")
    with pytest.raises(SourceError, match="not loaded"):
        read(source)


def test_names_are_understood_as_bytes_and_as_text(simulate: SetState, monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    simulate(GPU)
    source = opened()
    # Releases of nvidia-ml-py before 11.515 return bytes.
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda handle: b"Tesla \xff")
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda handle: b"GPU-1")
    assert [(device.uuid, device.name) for device in source.devices()] == [("GPU-1", "Tesla �")]


def test_a_machine_without_a_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    monkeypatch.delenv("JTRAIN_SIMULATE_GPUS", raising=False)
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        with pytest.raises(SourceError, match=r"libnvidia-ml\.so\.1 is not there"):
            NvmlSource().open()
    else:
        pytest.skip("this machine has an NVIDIA driver")
