"""GPU readings from the driver's own library NVML, through nvidia-ml-py.

Nothing is loaded before the first `open`. Every reading fails alone: a GPU that doesn't report its power still
reports its memory, and one that has fallen off the bus keeps its place, without readings.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jtrain.devices.processes import ProcessNames
from jtrain.devices.sources import SourceError, unread_sample
from jtrain.domain.devices import Device, DeviceSample, GpuProcess, Reading, missing

_LIST_EVERY_S = 10.0
"""How often the devices are looked up again: MIG slices come and go without changing the number of GPUs."""

_VANISHED = "the device is no longer there: it was removed, or its GPU was cut into other slices"
_WHOLE_GPU_ONLY = "the driver reports this for the whole GPU only, not for its slices"

_EXPLAINED = {
    "NVML_ERROR_LIBRARY_NOT_FOUND": "the library libnvidia-ml.so.1 is not there: no NVIDIA driver is installed, or "
    "this container was started without its GPUs",
    "NVML_ERROR_DRIVER_NOT_LOADED": "the NVIDIA driver is not loaded",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": "the NVIDIA driver was updated while it was in use: restart the machine (or "
    "reload the driver's kernel module)",
    "NVML_ERROR_NO_PERMISSION": "this user may not read it",
    "NVML_ERROR_NOT_SUPPORTED": "this GPU or its driver doesn't report it",
    "NVML_ERROR_FUNCTION_NOT_FOUND": "this driver is too old to report it",
    "NVML_ERROR_GPU_IS_LOST": "the GPU has fallen off the bus: `dmesg` says why; it comes back after a restart",
    "NVML_ERROR_RESET_REQUIRED": "the GPU must be reset before it can be used again",
}

_FATAL = {_EXPLAINED["NVML_ERROR_GPU_IS_LOST"], _EXPLAINED["NVML_ERROR_RESET_REQUIRED"]}


@dataclass
class _Gpu:
    """A device with its NVML handle; `parent` is the whole GPU's handle for a MIG slice."""

    device: Device
    handle: Any
    parent: Any = None
    lost: str = ""


@dataclass
class _Listing:
    count: int
    due: float
    gpus: list[_Gpu] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class NvmlSource:
    """Reads all GPUs and MIG slices of the machine."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._nvml: Any = None
        self._listing: _Listing | None = None
        self._failures: tuple[type[Exception], ...] = ()

    def open(self) -> None:
        """Load and initialise NVML. Raises SourceError with the reason in words."""
        if self._nvml is not None:
            return
        try:
            import pynvml
        except ImportError as error:
            raise SourceError(f"the package nvidia-ml-py can't be imported ({error})") from None
        self._failures = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError, UnicodeDecodeError)
        _load_simulated(pynvml)
        try:
            pynvml.nvmlInit()
        except self._failures as error:
            raise SourceError(explain(pynvml, error)) from None
        self._nvml = pynvml

    def close(self) -> None:
        """Let go of NVML; `open` may be called again, and then sees GPUs that were added."""
        nvml, self._nvml, self._listing = self._nvml, None, None
        if nvml is not None:
            self._try(nvml.nvmlShutdown)

    def interrupt(self) -> None:
        """Nothing to do: a call into the driver can't be ended."""

    def devices(self) -> list[Device]:
        """All GPUs in PCI order; in place of a GPU in MIG mode, its slices."""
        return [gpu.device for gpu in self._list().gpus]

    def describe(self) -> list[str]:
        driver, _ = self._try(self._nvml.nvmlSystemGetDriverVersion)
        listing = self._list()
        kind = "simulated" if any(gpu.device.is_simulated for gpu in listing.gpus) else "driver " + _text(driver or "?")
        sentences = [f"GPU readings come from NVML ({kind}); GPUs: {listing.count}, devices: {len(listing.gpus)}."]
        return sentences + listing.problems + [f"{gpu.device.label}: {gpu.lost}." for gpu in listing.gpus if gpu.lost]

    def read(self, names: ProcessNames) -> list[DeviceSample]:
        return [self._read(gpu, names) for gpu in self._list().gpus]

    def _list(self) -> _Listing:
        """The devices; looked up again when their number has changed, and now and then."""
        count, reason = self._try(self._nvml.nvmlDeviceGetCount)
        if count is None:
            raise SourceError(reason)
        now = self._clock()
        if self._listing is None or self._listing.count != count or now >= self._listing.due:
            listing = _Listing(count, now + _LIST_EVERY_S)
            for index in range(count):
                self._add(listing, index)
            self._listing = self._keep_lost(listing)
        return self._listing

    def _keep_lost(self, listing: _Listing) -> _Listing:
        """A device that vanished while it was watched stays in the list, so that its viewers learn why it is silent."""
        listed = {gpu.device.uuid for gpu in listing.gpus}
        for gpu in self._listing.gpus if self._listing else []:
            if gpu.device.uuid not in listed:
                gpu.lost = gpu.lost or _VANISHED
                listing.gpus.append(gpu)
        return listing

    def _add(self, listing: _Listing, index: int) -> None:
        nvml = self._nvml
        handle, reason = self._try(nvml.nvmlDeviceGetHandleByIndex, index)
        uuid, why = self._try(nvml.nvmlDeviceGetUUID, handle) if handle is not None else (None, reason)
        if uuid is None:
            listing.problems.append(f"GPU {index} can't be used: {why}.")
            return
        mode, _ = self._try(nvml.nvmlDeviceGetMigMode, handle)
        if mode is not None and mode[0]:
            self._add_slices(listing, index, handle)
        else:
            listing.gpus.append(_Gpu(self._describe(handle, _text(uuid), "gpu", str(index)), handle))

    def _add_slices(self, listing: _Listing, index: int, parent: Any) -> None:
        nvml = self._nvml
        most, _ = self._try(nvml.nvmlDeviceGetMaxMigDeviceCount, parent)
        before = len(listing.gpus)
        for slice_index in range(most or 0):
            handle, _ = self._try(nvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, slice_index)
            uuid, _ = self._try(nvml.nvmlDeviceGetUUID, handle) if handle is not None else (None, "")
            if uuid is not None:
                device = self._describe(handle, _text(uuid), "mig", f"{index}:{slice_index}")
                listing.gpus.append(_Gpu(device, handle, parent))
        if len(listing.gpus) == before:
            listing.problems.append(f"GPU {index} is in MIG mode but has no slices: nothing can run on it.")

    def _describe(self, handle: Any, uuid: str, kind: Any, index: str) -> Device:
        name, _ = self._try(self._nvml.nvmlDeviceGetName, handle)
        memory, _ = self._memory(handle)
        total = None if memory is None else int(memory.total)
        return Device(uuid, kind, index, _text(name) if name else "NVIDIA GPU", total)

    def _read(self, gpu: _Gpu, names: ProcessNames) -> DeviceSample:
        if gpu.lost == _VANISHED:
            return unread_sample(gpu.device.uuid, gpu.lost, is_lost=True)
        nvml, handle = self._nvml, gpu.handle
        memory, reason = self._memory(handle)
        used = Reading(int(memory.used)) if memory is not None else missing(reason)
        total = Reading(int(memory.total)) if memory is not None else missing(reason)
        sensor = handle if gpu.parent is None else gpu.parent  # slices share the chip, and so its temperature
        temperature = self._reading(lambda: nvml.nvmlDeviceGetTemperature(sensor, nvml.NVML_TEMPERATURE_GPU))
        load = power = missing(_WHOLE_GPU_ONLY)
        if gpu.parent is None:
            load = self._reading(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            power = self._reading(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000)
        gpu.lost = next((r.reason for r in (used, temperature, load) if r.reason in _FATAL), None) or ""
        if gpu.lost:
            return unread_sample(gpu.device.uuid, gpu.lost, is_lost=True)
        processes, why = self._processes(handle, names)
        return DeviceSample(gpu.device.uuid, load, used, total, temperature, power, processes, why)

    def _memory(self, handle: Any) -> tuple[Any, str]:
        """Memory as nvidia-smi shows it: without what the driver keeps for itself, where that is told apart."""
        nvml = self._nvml
        memory, reason = self._try(nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
        return (memory, reason) if memory is not None else self._try(nvml.nvmlDeviceGetMemoryInfo, handle)

    def _processes(self, handle: Any, names: ProcessNames) -> tuple[tuple[GpuProcess, ...], str | None]:
        found: dict[int, GpuProcess] = {}
        why: str | None = None
        for kind in ("graphics", "compute"):  # a process that does both counts as compute
            listed, reason = self._list_processes(handle, kind.capitalize())
            if listed is None and kind == "compute":
                why = reason
            for entry in listed or []:
                memory = None if entry.usedGpuMemory is None else int(entry.usedGpuMemory)
                found[entry.pid] = GpuProcess(int(entry.pid), memory, *names.find(int(entry.pid)), kind=kind)
        return tuple(sorted(found.values(), key=lambda process: process.pid)), why

    def _list_processes(self, handle: Any, kind: str) -> tuple[Any, str]:
        """The list in its newest form that the driver knows."""
        listed, reason = self._try(getattr(self._nvml, f"nvmlDeviceGet{kind}RunningProcesses_v3"), handle)
        if listed is None and reason == _EXPLAINED["NVML_ERROR_FUNCTION_NOT_FOUND"]:
            return self._try(getattr(self._nvml, f"nvmlDeviceGet{kind}RunningProcesses_v2"), handle)
        return listed, reason

    def _reading(self, call: Callable[[], float]) -> Reading:
        value, reason = self._try(call)
        return missing(reason) if value is None else Reading(round(value, 1))

    def _try(self, call: Callable[..., Any], *args: Any) -> tuple[Any, str]:
        """What `call` returns, or None and the reason."""
        try:
            return call(*args), ""
        except self._failures as error:
            return None, explain(self._nvml, error)


def explain(nvml: Any, error: Exception) -> str:
    """An NVML error in words."""
    if isinstance(error, UnicodeDecodeError):
        return "the driver gave a name that is no text"
    code = getattr(error, "value", None)
    for name, sentence in _EXPLAINED.items():
        if nvml is not None and code == getattr(nvml, name):
            return sentence
    return f"NVML says: {error}"


def _text(value: str | bytes) -> str:
    """Names are bytes in older releases of nvidia-ml-py."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _load_simulated(nvml: Any) -> None:
    """Put the simulated driver in the real one's place when `JTRAIN_SIMULATE_GPUS` asks for it, or take it away."""
    is_wanted = bool(os.environ.get("JTRAIN_SIMULATE_GPUS"))
    if is_wanted or "jtrain.devices.simulated" in sys.modules:
        from jtrain.devices import simulated

        (simulated.install if is_wanted else simulated.uninstall)(nvml)
