"""Devices, readings and samples: data only.

A reading that could not be taken is `None` with a reason, never 0. In JSON a reading is its bare value
(`"load_percent": 37` or `null`), and the reasons of all missing ones stand beside them in `"reasons"`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

Kind = Literal["gpu", "mig", "cpu"]

SIMULATED_PREFIX = "GPU-SIMULATED-"
SIMULATED_PREFIXES = (SIMULATED_PREFIX, SIMULATED_PREFIX.replace("GPU", "MIG"))
"""Of the identifiers of simulated GPUs, and of slices of those."""
"""How the UUIDs of simulated GPUs begin; no real one has letters beyond f."""

_UNITS = {"percent": "%", "bytes": "B", "celsius": "°C", "watts": "W"}
_NOT_RECORDED = "not recorded"
_Record = TypeVar("_Record", bound="_Readings")


def format_bytes(count: float) -> str:
    """`count` bytes for people, in powers of 1024: `512 B`, `1.5 GiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, a MIG slice of one, or a CPU slot; known by `uuid`.

    `index` is what the machine calls it: `"2"`, for a MIG slice `"2:0"` (GPU and slice), for a CPU slot its number.
    """

    uuid: str
    kind: Kind
    index: str
    name: str
    memory_total_bytes: int | None = None

    @property
    def label(self) -> str:
        """A short name for people: `GPU 2`, `MIG slice 2:0`, `CPU slot 1`."""
        return f"{ {'gpu': 'GPU', 'mig': 'MIG slice', 'cpu': 'CPU slot'}[self.kind] } {self.index}"

    @property
    def is_simulated(self) -> bool:
        """Whether there is no such device: it is shown for demonstration and nothing can be computed on it."""
        return self.uuid.startswith(SIMULATED_PREFIXES)

    def to_json(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Device:
        """The device of `record`; raises KeyError or TypeError for a record that is none."""
        return cls(**{field.name: record[field.name] for field in fields(cls)})


@dataclass(frozen=True, slots=True)
class Reading:
    """A number with its unit (`%`, `B`, `°C`, `W`), or `None` with the reason why there is no number."""

    value: float | None
    unit: str = ""
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            object.__setattr__(self, "value", None)
            object.__setattr__(self, "reason", self.reason or "the machine gave no finite number")

    def __str__(self) -> str:
        if self.value is None:
            return "n/a"
        return format_bytes(self.value) if self.unit == "B" else f"{self.value:.0f} {self.unit}".rstrip()


def missing(reason: str) -> Reading:
    """A reading that could not be taken; the field it is put into gives it its unit."""
    return Reading(None, "", reason)


class _Readings:
    """What all records of readings share: units by field name, and their way to JSON and back."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for name in self._names():
            reading = getattr(self, name)
            unit = _UNITS[name.rpartition("_")[2]]
            if reading.unit != unit:
                object.__setattr__(self, name, Reading(reading.value, unit, reading.reason))

    @classmethod
    def _names(cls) -> list[str]:
        return [field.name for field in fields(cls) if field.type == "Reading"]  # type: ignore[arg-type]

    def _readings_to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {name: getattr(self, name).value for name in self._names()}
        reasons = {name: getattr(self, name).reason for name, value in record.items() if value is None}
        return record | ({"reasons": reasons} if reasons else {})

    @classmethod
    def _readings_from_json(cls, record: Mapping[str, Any]) -> dict[str, Reading]:
        reasons = record.get("reasons", {})
        return {
            name: Reading(
                record.get(name), "", None if record.get(name) is not None else reasons.get(name, _NOT_RECORDED)
            )
            for name in cls._names()
        }


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that uses a GPU. `name` and `user` are None when they can't be read (other users, other containers)."""

    pid: int
    memory_bytes: int | None = None
    name: str | None = None
    user: str | None = None
    kind: Literal["compute", "graphics"] = "compute"

    def __str__(self) -> str:
        who = f", {self.user}" if self.user else ""
        return f"{self.name or 'a process'} (pid {self.pid}{who})"


@dataclass(frozen=True)
class DeviceSample(_Readings):
    """What one GPU or MIG slice did at one instant.

    `load_percent` is the share of time in which a kernel ran. `is_lost`: nothing can run on it, as the reasons say.
    """

    uuid: str
    load_percent: Reading
    memory_used_bytes: Reading
    memory_total_bytes: Reading
    temperature_celsius: Reading
    power_watts: Reading
    processes: tuple[GpuProcess, ...] = ()
    processes_reason: str | None = None
    is_lost: bool = False

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"uuid": self.uuid} | self._readings_to_json()
        record["processes"] = [
            {field.name: getattr(process, field.name) for field in fields(process)} for process in self.processes
        ]
        if self.processes_reason:
            record["processes_reason"] = self.processes_reason
        return record | ({"is_lost": True} if self.is_lost else {})

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> DeviceSample:
        return cls(
            uuid=record["uuid"],
            processes=tuple(GpuProcess(**process) for process in record.get("processes", ())),
            processes_reason=record.get("processes_reason"),
            is_lost=record.get("is_lost", False),
            **cls._readings_from_json(record),
        )


@dataclass(frozen=True)
class HostSample(_Readings):
    """The machine, or the container's share of it. `cpu_percent`: 100 means that all usable CPUs are busy."""

    cpu_percent: Reading
    memory_used_bytes: Reading
    memory_total_bytes: Reading
    disk_free_bytes: Reading

    def to_json(self) -> dict[str, Any]:
        return self._readings_to_json()

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> HostSample:
        return cls(**cls._readings_from_json(record))


@dataclass(frozen=True)
class ProcessSample(_Readings):
    """One rank. `cpu_percent`: 100 means one CPU, its child processes (DataLoader workers) included.

    `memory_bytes` is the resident memory of the rank's own process; `gpu_memory_bytes` is summed over all GPUs.
    """

    rank: int
    pid: int
    cpu_percent: Reading
    memory_bytes: Reading
    gpu_memory_bytes: Reading

    def to_json(self) -> dict[str, Any]:
        return {"rank": self.rank, "pid": self.pid} | self._readings_to_json()

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> ProcessSample:
        return cls(rank=record["rank"], pid=record["pid"], **cls._readings_from_json(record))


@dataclass(frozen=True)
class Sample:
    """All readings of one instant; `time` in UTC epoch seconds."""

    time: float
    host: HostSample
    devices: tuple[DeviceSample, ...] = ()
    workers: tuple[ProcessSample, ...] = ()

    def device(self, uuid: str) -> DeviceSample | None:
        """What the device `uuid` did, or None when it wasn't seen."""
        return next((device for device in self.devices if device.uuid == uuid), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "time": self.time,
            "host": self.host.to_json(),
            "devices": [device.to_json() for device in self.devices],
            "workers": [worker.to_json() for worker in self.workers],
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Sample:
        """The sample of a JSON record; raises KeyError or TypeError for a record that is none."""
        return cls(
            time=record["time"],
            host=HostSample.from_json(record["host"]),
            devices=tuple(DeviceSample.from_json(device) for device in record.get("devices", ())),
            workers=tuple(ProcessSample.from_json(worker) for worker in record.get("workers", ())),
        )
