"""The machine at one instant, as pickers show it: every device, what it does, and who has it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from jtrain.devices.choose import find_foreign_use
from jtrain.devices.sampler import Sampler
from jtrain.domain.devices import Device, DeviceSample, GpuProcess, HostSample, Reading
from jtrain.domain.messages import DeviceRow, HostRow, MachineState, ProcessRow
from jtrain.domain.wording import clip, table
from jtrain.engine.leases import LeaseTable
from jtrain.engine.machine import MachinePaths
from jtrain.store.paths import RUN_ID, StorePaths, store_root

_FRESH_S = 0.5
"""A reading younger than this serves everybody who asks."""
_UNREAD = "no reading was taken"
_SETTLE_S = 0.1
"""A share of the time needs two looks."""
_FIGURES = ("load_percent", "memory_used_bytes", "memory_total_bytes", "temperature_celsius", "power_watts")


class MachineReader:
    """Reads the machine for all widgets of this process; the driver is let go of when the last one leaves."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._sampler: Sampler | None = None
        self._num_users = 0
        self._state: MachineState | None = None
        self._read_at = 0.0

    def join(self) -> None:
        """One more reads from now on, until `leave`."""
        with self._lock:
            self._num_users += 1

    def leave(self) -> None:
        """One reads no more."""
        with self._lock:
            self._num_users -= 1
            self._close_unused()

    def read(self) -> MachineState:
        """The machine now, or as it was half a second ago when somebody has just looked."""
        with self._lock:
            now = time.monotonic()
            if self._state is None or now - self._read_at > _FRESH_S:
                self._state = self._take()
                self._read_at = time.monotonic()
            self._close_unused()
            return self._state

    def _close_unused(self) -> None:
        if self._num_users <= 0 and self._sampler is not None:
            self._sampler.close()
            self._sampler = None

    def _take(self) -> MachineState:
        root = self._root or store_root()
        if self._sampler is None:
            self._sampler = Sampler(root if root.is_dir() else root.parent)
            self._sampler.sample()
            time.sleep(_SETTLE_S)
        sample = self._sampler.sample()
        # A device that was lost is listed last; its tile shall stay where it is.
        devices = sorted(self._sampler.devices(), key=_place)
        uses = find_foreign_use(sample)
        owners = _Owners(root)
        rows = [owners.row(device, sample.device(device.uuid), uses.get(device.uuid, "")) for device in devices]
        return {
            "time": sample.time,
            "host": _host_row(sample.host),
            "devices": rows,
            "explanation": self._sampler.source_report(),
        }


def _place(device: Device) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in device.index.split(":")]


class _Owners:
    """Who has which device."""

    def __init__(self, root: Path) -> None:
        self._store = StorePaths(root)
        self._leases = LeaseTable(MachinePaths.find())

    def row(self, device: Device, reading: DeviceSample | None, foreign_use: str) -> DeviceRow:
        owner, run_id = self._lease(device.uuid)
        figures = {name: getattr(reading, name) if reading else Reading(None, "", _UNREAD) for name in _FIGURES}
        return {
            "uuid": device.uuid,
            "kind": "mig" if device.kind == "mig" else "gpu",
            "label": device.label,
            "name": device.name,
            "is_simulated": device.is_simulated,
            "is_lost": reading.is_lost if reading else False,
            "load_percent": figures["load_percent"].value,
            "memory_used_bytes": figures["memory_used_bytes"].value,
            "memory_total_bytes": figures["memory_total_bytes"].value or device.memory_total_bytes,
            "temperature_celsius": figures["temperature_celsius"].value,
            "power_watts": figures["power_watts"].value,
            "processes": [_process_row(process) for process in reading.processes] if reading else [],
            "owner": owner or foreign_use.removeprefix("used by "),
            "owner_run": run_id,
            "reasons": {name: figure.reason or "" for name, figure in figures.items() if figure.value is None},
        }

    def _lease(self, uuid: str) -> tuple[str, str | None]:
        """Who leased the device, in words, and the run when it is one of this store."""
        if self._leases.state(uuid) == "free":
            return "", None
        holder = self._leases.read_holder(uuid)
        if RUN_ID.fullmatch(holder.run_id) and self._store.run(holder.run_id).spec.exists():
            return f"run {holder.run_id}", holder.run_id
        whose = f" of {holder.user}" if holder.user else ""
        return (f"run {holder.run_id}{whose}" if holder.run_id else "another run"), None


def _process_row(process: GpuProcess) -> ProcessRow:
    return {
        "pid": process.pid,
        "memory_bytes": process.memory_bytes,
        "name": process.name,
        "user": process.user,
        "run": _run_of(process.pid),
    }


def _run_of(pid: int) -> str | None:
    """The run that a process of this user belongs to: its ranks and their children have it in their environment."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = next((text for text in variables if text.startswith(b"JTRAIN_RUN_ID=")), b"")
    run_id = found.partition(b"=")[2].decode(errors="replace")
    return run_id if RUN_ID.fullmatch(run_id) else None


def _host_row(host: HostSample) -> HostRow:
    names = ("cpu_percent", "memory_used_bytes", "memory_total_bytes", "disk_free_bytes")
    return {
        "cpu_percent": host.cpu_percent.value,
        "memory_used_bytes": host.memory_used_bytes.value,
        "memory_total_bytes": host.memory_total_bytes.value,
        "disk_free_bytes": host.disk_free_bytes.value,
        "reasons": {name: getattr(host, name).reason or "" for name in names if getattr(host, name).value is None},
    }


MACHINE = MachineReader()
"""The one that the widgets of this process share."""


def figure(value: float | None, unit: str) -> str:
    """A reading as people read it: `37 %`, `1.5 GiB`, `n/a`."""
    return str(Reading(value, unit))


def machine_text(state: MachineState, chosen: list[str]) -> str:
    """The machine as text; chosen devices are marked."""
    rows = [("", "device", "name", "load", "memory", "temperature", "power", "used by")]
    for device in state["devices"]:
        rows.append(
            (
                "[x]" if device["uuid"] in chosen else "[ ]",
                device["label"],
                shown_name(device),
                figure(device["load_percent"], "%"),
                f"{figure(device['memory_used_bytes'], 'B')} of {figure(device['memory_total_bytes'], 'B')}",
                figure(device["temperature_celsius"], "°C"),
                figure(device["power_watts"], "W"),
                clip(device["owner"], 60),
            )
        )
    gone = [f"[x] {uuid}: chosen, but not here" for uuid in chosen if uuid not in uuids_of(state)]
    lines = [table(rows)] if state["devices"] else [NO_GPU, *reasons_for_none(state)]
    return "\n".join([*lines, *gone, host_text(state["host"])])


def shown_name(device: DeviceRow) -> str:
    """The device's name; a simulated one always says so."""
    name = clip(device["name"], 60)
    return f"{name} (simulated)" if device["is_simulated"] and "simulated" not in name.lower() else name


NO_GPU = "No GPU can be seen on this machine, so runs use the CPU."


def reasons_for_none(state: MachineState) -> list[str]:
    """Why no GPU can be seen, in sentences."""
    return [sentence for sentence in state["explanation"] if not sentence.startswith("No GPU can be seen")]


def host_text(host: HostRow) -> str:
    """CPU and memory on one line."""
    memory = f"{figure(host['memory_used_bytes'], 'B')} of {figure(host['memory_total_bytes'], 'B')}"
    return f"CPU {figure(host['cpu_percent'], '%')} busy, memory {memory}"


def uuids_of(state: MachineState) -> set[str]:
    """The devices there are."""
    return {device["uuid"] for device in state["devices"]}
