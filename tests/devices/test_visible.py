"""CUDA_VISIBLE_DEVICES, and the CPU's slots."""

import pytest

from jtrain.devices.visible import cpu_slots, explain_visible, select_visible
from jtrain.domain.devices import Device
from jtrain.errors import OptionError

GPUS = [Device(f"GPU-{letter * 4}-{number}", "gpu", str(number), "A100") for number, letter in enumerate("abcd")]
SLICED = [GPUS[0], Device("MIG-11", "mig", "1:0", "A100"), Device("MIG-12", "mig", "1:1", "A100")]


@pytest.mark.parametrize(
    ("setting", "indices"),
    [
        (None, "0123"),
        ("2,3", "23"),
        ("3,1", "31"),
        (" 1 , 0 ", "10"),
        ("", ""),
        ("-1", ""),
        ("0,-1,2", "0"),
        ("0,7,1", "0"),
        ("1,1", ""),
        ("GPU-bbbb-1", "1"),
        ("GPU-cc,0", "20"),
        ("GPU-", ""),
        ("none", ""),
        ("NoDevFiles", ""),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(setting: str | None, indices: str) -> None:
    environ = {} if setting is None else {"CUDA_VISIBLE_DEVICES": setting}
    assert "".join(device.index for device in select_visible(GPUS, environ)) == indices


@pytest.mark.parametrize(
    ("setting", "indices"),
    [("MIG-12", ["1:1"]), ("MIG-12,MIG-11", ["1:1", "1:0"]), ("1", ["1:0", "1:1"]), ("MIG-1", [])],
)
def test_mig_slices_are_named_by_uuid_or_by_their_gpu(setting: str, indices: list[str]) -> None:
    assert [d.index for d in select_visible(SLICED, {"CUDA_VISIBLE_DEVICES": setting})] == indices


def test_the_effect_of_the_variable_is_explained() -> None:
    [sentence] = explain_visible(GPUS, {"CUDA_VISIBLE_DEVICES": "2,3"})
    assert "GPU 2, GPU 3" in sentence
    assert explain_visible(GPUS, {}) == []


def test_numbers_on_a_machine_with_different_gpus_come_with_a_warning() -> None:
    mixed = [*GPUS, Device("GPU-x", "gpu", "4", "T4")]
    assert "CUDA_DEVICE_ORDER" in " ".join(explain_visible(mixed, {"CUDA_VISIBLE_DEVICES": "0"}))
    sorted_by_bus = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert "CUDA_DEVICE_ORDER" not in " ".join(explain_visible(mixed, sorted_by_bus))


@pytest.mark.parametrize(("setting", "cpus", "count"), [("", 2, 4), ("", 16, 16), ("3", 16, 3)])
def test_cpu_slots_are_the_usable_cpus_but_at_least_four(setting: str, cpus: int, count: int) -> None:
    slots = cpu_slots({"JTRAIN_CPU_SLOTS": setting}, cpus)
    assert [slot.uuid for slot in slots] == [f"CPU-{number}" for number in range(count)]


@pytest.mark.parametrize("setting", ["0", "-2", "many", "1.5", "99999"])
def test_a_wrong_number_of_cpu_slots_is_refused(setting: str) -> None:
    with pytest.raises(OptionError, match="JTRAIN_CPU_SLOTS"):
        cpu_slots({"JTRAIN_CPU_SLOTS": setting}, 4)
