"""`--gpus` and `--nproc`: what they mean, what is refused, and what the refusal says."""

import pytest

from jtrain.devices.choose import Want, ask, find_foreign_use, is_picker, list_chosen
from jtrain.domain.devices import Device, DeviceSample, GpuProcess, HostSample, Reading, Sample, missing
from jtrain.errors import DeviceError, OptionError

GPUS = [Device(f"GPU-{letter}", "gpu", str(number), "A100") for number, letter in enumerate("abcd")]
UUIDS = ("GPU-a", "GPU-b", "GPU-c", "GPU-d")
SLOTS = [Device(f"CPU-{number}", "cpu", str(number), "CPU") for number in range(4)]
SLOT_IDS = tuple(slot.uuid for slot in SLOTS)


@pytest.mark.parametrize(
    ("gpus", "nproc", "want"),
    [
        ("auto", None, Want("gpu", 4, 1, UUIDS)),
        ("free", None, Want("gpu", 4, 1, UUIDS)),
        ("AUTO ", 2, Want("gpu", 2, 2, UUIDS)),
        ("3", None, Want("gpu", 3, 3, UUIDS)),
        ("3", 3, Want("gpu", 3, 3, UUIDS)),
        ("all", None, Want("gpu", 4, 4, UUIDS, is_exact=True)),
        ("2,0", None, Want("gpu", 2, 2, ("GPU-c", "GPU-a"), is_exact=True)),
        ("1,", None, Want("gpu", 1, 1, ("GPU-b",), is_exact=True)),
        ("GPU-d,gpu-b", 2, Want("gpu", 2, 2, ("GPU-d", "GPU-b"), is_exact=True)),
        ("none", None, Want("cpu", 1, 1, SLOT_IDS)),
        ("none", 3, Want("cpu", 3, 3, SLOT_IDS)),
    ],
)
def test_what_is_asked_for_on_a_machine_with_four_gpus(gpus: str, nproc: int | None, want: Want) -> None:
    assert ask(gpus, nproc, GPUS, SLOTS) == want


@pytest.mark.parametrize(("nproc", "count"), [(None, 1), (2, 2)])
def test_auto_uses_the_cpu_where_there_is_no_gpu(nproc: int | None, count: int) -> None:
    assert ask("auto", nproc, [], SLOTS) == Want("cpu", count, count, SLOT_IDS)


def test_mig_slices_are_asked_for_by_gpu_and_slice() -> None:
    devices = [GPUS[0], Device("MIG-1", "mig", "1:0", "A100"), Device("MIG-2", "mig", "1:1", "A100")]
    assert ask("1:1,0", None, devices, SLOTS).candidates == ("MIG-2", "GPU-a")
    with pytest.raises(DeviceError, match=r"GPU 1 is cut into the slices 1:0, 1:1"):
        ask("1,", None, devices, SLOTS)


@pytest.mark.parametrize(
    ("gpus", "nproc", "error", "hints"),
    [
        ("5", None, DeviceError, ["are 2 GPUs: 0, 1", "--gpus 2"]),
        ("0,0", None, OptionError, ["named twice", "--gpus 0"]),
        ("0,GPU-a", None, OptionError, ["GPU 0 is named twice"]),
        ("-1", None, OptionError, ["--gpus none", "--gpus 1"]),
        ("0", None, OptionError, ["--gpus none", "--gpus 0,"]),
        ("0,2", None, DeviceError, ["'2' names no device", "are 2 GPUs: 0, 1"]),
        ("GPU-x", None, DeviceError, ["names no device"]),
        ("al", None, OptionError, ["did you mean `--gpus all`"]),
        ("two", None, OptionError, ["auto, all, free, none, picker, a number"]),
        ("", None, OptionError, ["auto, all"]),
        ("1.5", None, OptionError, ["auto, all"]),
        ("auto", 0, OptionError, ["--nproc 1"]),
        ("auto", -3, OptionError, ["--nproc 1"]),
        ("2", 1, OptionError, ["one process runs on each GPU", "--gpus auto --nproc 1"]),
        ("0,1", 3, OptionError, ["that would be 2"]),
        ("auto", 3, DeviceError, ["--nproc 2", "--gpus none --nproc 3"]),
        ("none", 5, DeviceError, ["4 CPU slots", "--nproc 4", "JTRAIN_CPU_SLOTS=5"]),
    ],
)
def test_what_can_not_be_is_refused_with_the_nearest_valid_thing(
    gpus: str, nproc: int | None, error: type[Exception], hints: list[str]
) -> None:
    with pytest.raises(error) as caught:
        ask(gpus, nproc, GPUS[:2], SLOTS)
    assert [hint for hint in hints if hint not in str(caught.value)] == []


@pytest.mark.parametrize("gpus", ["2", "all", "free", "0,1"])
def test_gpus_on_a_machine_without_any_are_refused_with_the_cpu_as_way_out(gpus: str) -> None:
    with pytest.raises(DeviceError, match=r"no GPU can be seen.*--gpus none"):
        ask(gpus, None, [], SLOTS)


def gpu(uuid: str, used: float | None = 0, *processes: GpuProcess, is_lost: bool = False) -> DeviceSample:
    memory = missing("not supported") if used is None else Reading(used)
    none = missing("fallen off" if is_lost else "-")
    return DeviceSample(uuid, none, memory, none, none, none, processes, is_lost=is_lost)


def uses(*gpus: DeviceSample, ours: tuple[int, ...] = ()) -> dict[str, str]:
    none = missing("-")
    return find_foreign_use(Sample(0.0, HostSample(none, none, none, none), gpus), ours)


def test_a_gpu_with_somebody_elses_process_is_used() -> None:
    found = uses(gpu("GPU-a"), gpu("GPU-b", 5, GpuProcess(7, 5, "python", "ana")))
    assert found == {"GPU-b": "used by python (pid 7, ana)"}


def test_our_own_processes_and_ones_that_draw_do_not_count() -> None:
    drawing = GpuProcess(8, 5, "Xorg", "root", "graphics")
    assert uses(gpu("GPU-a", 10, GpuProcess(7, 5), drawing), ours=(7,)) == {}


def test_memory_that_no_listed_process_explains_counts() -> None:
    assert "4 GiB" in uses(gpu("GPU-a", 4 << 30))["GPU-a"]
    assert uses(gpu("GPU-a", 400 << 20)) == {}
    assert uses(gpu("GPU-a", 4 << 30, GpuProcess(7, None)), ours=(7,)) == {}
    assert uses(gpu("GPU-a", None)) == {}


def test_a_lost_gpu_is_out_of_order() -> None:
    assert uses(gpu("GPU-a", None, is_lost=True))["GPU-a"].startswith("out of order")


def test_picker_is_the_list_of_the_chosen_devices_in_their_order() -> None:
    assert [is_picker(word) for word in ("picker", " Picker ", "auto", "GPU-a")] == [True, True, False, False]
    assert ask(list_chosen(["GPU-c", "GPU-a"], None, GPUS), None, GPUS, SLOTS).candidates == ("GPU-c", "GPU-a")
    assert ask(list_chosen(["GPU-b"], 1, GPUS), 1, GPUS, SLOTS) == Want("gpu", 1, 1, ("GPU-b",), is_exact=True)


@pytest.mark.parametrize(
    ("chosen", "nproc", "visible", "error", "hints"),
    [
        ([], None, GPUS, DeviceError, ["no device is chosen", "GPUPicker", "are 4 GPUs: 0, 1, 2, 3"]),
        (["GPU-z"], None, GPUS[:2], DeviceError, ["GPU-z was chosen", "are 2 GPUs: 0, 1", "choose again"]),
        (["GPU-a", "GPU-y", "GPU-z"], None, GPUS, DeviceError, ["GPU-y, GPU-z were chosen"]),
        (["GPU-a", "GPU-b"], 3, GPUS, OptionError, ["--gpus picker --nproc 3", "that would be 2"]),
        (["GPU-a"], None, [], DeviceError, ["no GPU can be seen", "--gpus none"]),
    ],
)
def test_a_choice_that_cant_be_taken_says_what_there_is(
    chosen: list[str], nproc: int | None, visible: list[Device], error: type[Exception], hints: list[str]
) -> None:
    with pytest.raises(error) as caught:
        list_chosen(chosen, nproc, visible)
    for hint in hints:
        assert hint in str(caught.value)
