"""Samples on disk: what is written is read back, and what is missing stays missing."""

import dataclasses
import json

import pytest

from jtrain.domain.devices import (
    Device,
    DeviceSample,
    GpuProcess,
    HostSample,
    ProcessSample,
    Reading,
    Sample,
    format_bytes,
    missing,
)

SAMPLE = Sample(
    time=12.5,
    host=HostSample(missing("too soon"), Reading(1 << 30), Reading(4 << 30), Reading(7)),
    devices=(
        DeviceSample(
            "GPU-1",
            Reading(0),
            Reading(5),
            Reading(6),
            missing("not supported"),
            missing("not supported"),
            (GpuProcess(7, 8, "python", "ana"), GpuProcess(9)),
        ),
    ),
    workers=(ProcessSample(0, 7, Reading(99.5), Reading(5), missing("not listed")),),
)


def test_a_sample_survives_its_way_through_json() -> None:
    assert Sample.from_json(json.loads(json.dumps(SAMPLE.to_json(), allow_nan=False))) == SAMPLE


def test_a_missing_reading_is_null_with_its_reason() -> None:
    record = SAMPLE.to_json()["devices"][0]
    assert record["load_percent"] == 0
    assert record["power_watts"] is None
    assert record["reasons"]["power_watts"] == "not supported"


def test_a_field_that_was_never_written_is_missing_too() -> None:
    record = SAMPLE.to_json()
    del record["host"]["disk_free_bytes"]
    assert Sample.from_json(record).host.disk_free_bytes == Reading(None, "B", "not recorded")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_becomes_missing(value: float) -> None:
    reading = Reading(value, "%")
    assert (reading.value, str(reading)) == (None, "n/a")


@pytest.mark.parametrize(
    ("reading", "text"),
    [
        (SAMPLE.devices[0].load_percent, "0 %"),
        (SAMPLE.devices[0].power_watts, "n/a"),
        (SAMPLE.host.memory_used_bytes, "1 GiB"),
        (Reading(61.4, "°C"), "61 °C"),
    ],
)
def test_readings_are_shown_with_their_unit(reading: Reading, text: str) -> None:
    assert str(reading) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (500 << 20, "500 MiB"), (80 << 30, "80 GiB"), (3 << 40, "3 TiB")]
)
def test_bytes_are_shown_in_powers_of_1024(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_devices_are_named_as_the_machine_names_them() -> None:
    slice_ = Device("MIG-1", "mig", "2:0", "H100 1g.10gb", 10 << 30)
    assert slice_.label == "MIG slice 2:0"
    assert Device.from_json(json.loads(json.dumps(slice_.to_json()))) == slice_
    assert not slice_.is_simulated
    assert dataclasses.replace(slice_, uuid="MIG-SIMULATED-0000-0").is_simulated
