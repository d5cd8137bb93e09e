"""Simulated GPUs, for demonstrations and tests on machines that have none. No reading of it is real.

`JTRAIN_SIMULATE_GPUS=4` shows four GPUs whose readings change like those of a training run;
`JTRAIN_SIMULATE_GPUS=/path/state.json` shows what that file says, read again at every call, so that a test
can take a GPU off the bus while it is watched:

    {"error": "NVML_ERROR_DRIVER_NOT_LOADED"}                    the driver itself fails
    {"gpus": [{"name": "…", "load": 40, "memory_used": 1024, "memory_total": 4096, "temperature": 50, "power": 90.5,
               "power_error": "NVML_ERROR_NOT_SUPPORTED",        any reading may fail
               "processes": [{"pid": 1, "memory": 5}],
               "slices": [{"memory_used": 0, …}, null]}],        MIG mode; null is an unused place
     "missing": ["nvmlDeviceGetMemoryInfo_v2"]}                  functions that an old driver doesn't have

It stands where the driver's library would: nvidia-ml-py calls it through ctypes' structures, as it calls the
real one. Function names, structures and error codes are those of NVML's interface.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import time
from collections.abc import Callable
from typing import Any

from jtrain.domain.devices import SIMULATED_PREFIX

_GIB = 1 << 30
_DEFAULT_MEMORY_BYTES = 24 * _GIB
_DEMO_WAVE_S = 47.0
_NO_PROCESS = 2**22 + 1
"""A process id above the largest that Linux gives."""

_SLICES_FROM = 1000
"""Handles are numbers: GPU `i` is `i + 1`, slice `j` of it is `1000 * (i + 1) + j + 1`."""


class _Failure(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def read_state(setting: str, now: float) -> dict[str, Any]:
    """The state that `JTRAIN_SIMULATE_GPUS=setting` describes: a number of GPUs, or a file."""
    if setting.isdigit():
        return {"gpus": [_demo_gpu(index, now) for index in range(int(setting))]}
    with open(setting, encoding="utf-8") as file:
        state = json.load(file)
    return state if isinstance(state, dict) else {}


def _demo_gpu(index: int, now: float) -> dict[str, Any]:
    wave = math.sin(2 * math.pi * now / _DEMO_WAVE_S + index)
    load = max(0.0, min(100.0, 62 + 34 * wave + 6 * math.sin(3 * now + 2 * index)))
    memory = int(_DEFAULT_MEMORY_BYTES * (0.45 + 0.1 * index % 0.4 + 0.05 * wave))
    return {
        "load": int(load),
        "memory_used": memory,
        # Drawing keeps no run away from a GPU, so that runs can be queued on these.
        "graphics_processes": [{"pid": _NO_PROCESS, "memory": memory}],
        "temperature": int(41 + 0.3 * load),
        "power": 60 + 2.4 * load,
    }


class SimulatedLibrary:
    """Stands for the loaded driver library: its attributes are NVML's functions."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._state: dict[str, Any] = {}
        self._message = ctypes.create_string_buffer(b"simulated error")

    def __getattr__(self, name: str) -> Any:
        body = _FUNCTIONS.get(name)
        if body is None or name in self._load().get("missing", ()):
            raise AttributeError(name)
        return _Function(self, body)

    def _load(self) -> dict[str, Any]:
        try:
            self._state = read_state(os.environ.get("JTRAIN_SIMULATE_GPUS") or "0", time.time())
        except (OSError, ValueError):
            self._state = {"error": "NVML_ERROR_DRIVER_NOT_LOADED"}
        return self._state

    def call(self, body: Callable[..., None], args: tuple[Any, ...]) -> int:
        """Run one function and return its NVML code."""
        try:
            self._load()
            if "error" in self._state:
                raise _Failure(self._state["error"])
            body(self, *args)
        except _Failure as failure:
            return int(getattr(self._nvml, failure.name))
        return int(self._nvml.NVML_SUCCESS)

    def gpus(self) -> list[dict[str, Any]]:
        return list(self._state.get("gpus", ()))

    def find(self, handle: Any) -> tuple[dict[str, Any], str]:
        """The GPU or slice of a handle, and its UUID."""
        number = ctypes.cast(handle, ctypes.c_void_p).value or 0
        gpu_number, slice_number = divmod(number, _SLICES_FROM) if number >= _SLICES_FROM else (number, 0)
        if not 0 < gpu_number <= len(self.gpus()):
            raise _Failure("NVML_ERROR_GPU_IS_LOST")
        gpu = self.gpus()[gpu_number - 1]
        uuid = gpu.get("uuid", f"{SIMULATED_PREFIX}0000-0000-0000-{gpu_number - 1:012d}")
        if slice_number:
            return gpu["slices"][slice_number - 1], f"MIG-{uuid.removeprefix('GPU-')}-{slice_number - 1}"
        return gpu, uuid

    def value(self, handle: Any, name: str, default: Any = None) -> Any:
        """A reading of a device; raises the failure that the state names for it, or for all of the device."""
        record, _ = self.find(handle)
        if name != "uuid" and (failure := record.get(f"{name}_error") or record.get("error")):
            raise _Failure(failure)
        if name not in record and default is None:
            raise _Failure("NVML_ERROR_NOT_SUPPORTED")
        return record.get(name, default)


class _Function:
    """A function of the library; nvidia-ml-py sets `restype` on some."""

    restype: Any = None

    def __init__(self, library: SimulatedLibrary, body: Callable[..., None]) -> None:
        self._library = library
        self._body = body

    def __call__(self, *args: Any) -> Any:
        return self._library.call(self._body, args)


def _nothing(library: SimulatedLibrary, *_: Any) -> None:
    pass


def _put(pointer: Any, kind: Any, value: Any) -> None:
    ctypes.cast(pointer, ctypes.POINTER(kind))[0] = value


def _put_text(buffer: Any, text: str | bytes) -> None:
    buffer.value = text.encode() if isinstance(text, str) else text


def _count(library: SimulatedLibrary, count: Any) -> None:
    _put(count, ctypes.c_uint, len(library.gpus()))


def _driver_version(library: SimulatedLibrary, buffer: Any, _: Any) -> None:
    _put_text(buffer, "simulated")


def _handle_by_index(library: SimulatedLibrary, index: Any, handle: Any) -> None:
    if index.value >= len(library.gpus()):
        raise _Failure("NVML_ERROR_INVALID_ARGUMENT")
    if failure := library.gpus()[index.value].get("error"):
        raise _Failure(failure)
    _put(handle, ctypes.c_void_p, index.value + 1)


def _name(library: SimulatedLibrary, handle: Any, buffer: Any, _: Any) -> None:
    _put_text(buffer, library.value(handle, "name", "Simulated GPU"))


def _uuid(library: SimulatedLibrary, handle: Any, buffer: Any, _: Any) -> None:
    _put_text(buffer, library.find(handle)[1])


def _memory(library: SimulatedLibrary, handle: Any, pointer: Any) -> None:
    info = pointer._obj
    info.total = library.value(handle, "memory_total", _DEFAULT_MEMORY_BYTES)
    info.used = library.value(handle, "memory_used", 0)
    info.free = info.total - info.used


def _utilization(library: SimulatedLibrary, handle: Any, pointer: Any) -> None:
    pointer._obj.gpu = library.value(handle, "load")


def _temperature(library: SimulatedLibrary, handle: Any, _: Any, pointer: Any) -> None:
    pointer._obj.value = library.value(handle, "temperature")


def _power(library: SimulatedLibrary, handle: Any, pointer: Any) -> None:
    pointer._obj.value = int(library.value(handle, "power") * 1000)


def _mig_mode(library: SimulatedLibrary, handle: Any, current: Any, pending: Any) -> None:
    current._obj.value = pending._obj.value = int("slices" in library.find(handle)[0])


def _num_slices(library: SimulatedLibrary, handle: Any, count: Any) -> None:
    count._obj.value = len(library.find(handle)[0].get("slices", ()))


def _slice(library: SimulatedLibrary, handle: Any, index: Any, slice_handle: Any) -> None:
    slices = library.find(handle)[0].get("slices", ())
    if index.value >= len(slices) or slices[index.value] is None:
        raise _Failure("NVML_ERROR_NOT_FOUND")
    number = ctypes.cast(handle, ctypes.c_void_p).value or 0
    _put(slice_handle, ctypes.c_void_p, number * _SLICES_FROM + index.value + 1)


def _compute_processes(library: SimulatedLibrary, handle: Any, count: Any, entries: Any) -> None:
    _put_processes(library, library.value(handle, "processes", []), count, entries)


def _graphics_processes(library: SimulatedLibrary, handle: Any, count: Any, entries: Any) -> None:
    _put_processes(library, library.value(handle, "graphics_processes", []), count, entries)


def _put_processes(library: SimulatedLibrary, processes: list[dict[str, Any]], count: Any, entries: Any) -> None:
    room = count._obj.value
    count._obj.value = len(processes)
    if len(processes) > room:
        raise _Failure("NVML_ERROR_INSUFFICIENT_SIZE")
    for index, process in enumerate(processes):
        memory = process.get("memory")
        entries[index].pid = process["pid"]
        entries[index].usedGpuMemory = (1 << 64) - 1 if memory is None else memory


_FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlInitWithFlags": _nothing,
    "nvmlShutdown": _nothing,
    "nvmlSystemGetDriverVersion": _driver_version,
    "nvmlDeviceGetCount_v2": _count,
    "nvmlDeviceGetHandleByIndex_v2": _handle_by_index,
    "nvmlDeviceGetName": _name,
    "nvmlDeviceGetUUID": _uuid,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetMemoryInfo_v2": _memory,
    "nvmlDeviceGetUtilizationRates": _utilization,
    "nvmlDeviceGetTemperature": _temperature,
    "nvmlDeviceGetPowerUsage": _power,
    "nvmlDeviceGetMigMode": _mig_mode,
    "nvmlDeviceGetMaxMigDeviceCount": _num_slices,
    "nvmlDeviceGetMigDeviceHandleByIndex": _slice,
    "nvmlDeviceGetComputeRunningProcesses_v2": _compute_processes,
    "nvmlDeviceGetComputeRunningProcesses_v3": _compute_processes,
    "nvmlDeviceGetGraphicsRunningProcesses_v2": _graphics_processes,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": _graphics_processes,
}


def install(nvml: Any) -> None:
    """Put the simulated library in place of the driver's in the module `nvml` (pynvml) of this process."""
    nvml.nvmlLib = SimulatedLibrary(nvml)
    nvml._nvmlGetFunctionPointer_cache.clear()


def uninstall(nvml: Any) -> None:
    """Let `nvml` load the driver's own library again."""
    if isinstance(nvml.nvmlLib, SimulatedLibrary):
        nvml.nvmlLib = None
        nvml._nvmlGetFunctionPointer_cache.clear()
