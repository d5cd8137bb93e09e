"""GPU readings from the program nvidia-smi, through GPUtil, for machines where NVML itself can't be loaded.

GPUtil starts nvidia-smi without a time limit and stops at the first line that it doesn't understand. So it is
given its own copy of the module, in which the program runs under a guard: limited in time, its error stream kept,
and lines that describe no GPU put aside as notes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shutil
import subprocess
import warnings
from typing import Any

from jtrain.devices.processes import ProcessNames
from jtrain.devices.sources import SourceError
from jtrain.domain.devices import Device, DeviceSample, Reading, missing

TIME_LIMIT_S = 8.0
"""On a machine with eight GPUs whose driver isn't kept loaded, nvidia-smi takes seconds."""

_KILL_WAIT_S = 1.0
_MIB = 1 << 20
_GPU_LINE = re.compile(r"\d+(, [^,]*){11}")
"""The twelve fields that GPUtil asks for, the index first."""

_BY_NVML_ONLY = "GPUtil doesn't read it; NVML (nvidia-ml-py) does"
_NOT_SHOWN = "nvidia-smi shows no value for it"


class SmiSource:
    """Reads the GPUs that nvidia-smi lists."""

    def __init__(self, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._guard = _Guard(time_limit_s)
        self._gputil: Any = None

    def open(self) -> None:
        """Find the program and GPUtil. Raises SourceError when one of them is missing."""
        if shutil.which("nvidia-smi") is None:
            raise SourceError("the program nvidia-smi is not there")
        if self._gputil is None:
            self._gputil = _import_gputil()
            self._gputil.Popen = self._guard.start
        self._guard.is_closed = False

    def interrupt(self) -> None:
        """End the program if it is running, and don't start it again until the next `open`."""
        self._guard.close()

    def close(self) -> None:
        """End the program if it is running."""
        self._guard.close()

    def devices(self) -> list[Device]:
        return [Device(gpu.uuid, "gpu", str(gpu.id), gpu.name, _to_bytes(gpu.memoryTotal)) for gpu in self._list()]

    def read(self, names: ProcessNames) -> list[DeviceSample]:
        return [_sample(gpu) for gpu in self._list()]

    def describe(self) -> list[str]:
        return ["GPU readings come from nvidia-smi (GPUtil): without power and processes.", *self._guard.notes]

    def _list(self) -> list[Any]:
        """GPUtil's objects. Raises SourceError with nvidia-smi's own words when it lists none."""
        self._guard.reset()
        try:
            gpus = self._gputil.getGPUs()
        # GPUtil parses without checks, so these are what an odd answer gives.
        except (ValueError, IndexError, ZeroDivisionError, AttributeError) as error:
            raise SourceError(f"nvidia-smi answers in a way that GPUtil doesn't understand ({error})") from None
        if not gpus:
            raise SourceError(self._guard.reason or "nvidia-smi lists no GPU")
        return list(gpus)


class _Guard:
    """Runs nvidia-smi for GPUtil, in the place of `subprocess.Popen`."""

    def __init__(self, time_limit_s: float) -> None:
        self._time_limit_s = time_limit_s
        self._child: subprocess.Popen[bytes] | None = None
        self.is_closed = False
        self.reason = ""
        self.notes: list[str] = []

    def reset(self) -> None:
        self.reason = ""
        self.notes = []

    def close(self) -> None:
        self.is_closed = True
        if (child := self._child) is not None:
            child.kill()

    def start(self, command: list[str], **_: Any) -> _Guard:
        """Stands for `Popen(command, stdout=PIPE)`."""
        if self._child is not None and self._child.poll() is None:
            self.reason = "an earlier nvidia-smi hangs in the driver and can't be ended"
            raise TimeoutError(self.reason)
        if self.is_closed:
            raise RuntimeError("closed")
        self._child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        return self

    def communicate(self) -> tuple[bytes, bytes]:
        """What the program says about GPUs, line by line; anything else becomes a note."""
        assert self._child is not None
        try:
            output, _ = self._child.communicate(timeout=self._time_limit_s)
        except subprocess.TimeoutExpired:
            self._end_child()
            self.reason = f"nvidia-smi gave no answer within {self._time_limit_s:g} s"
            raise
        lines = output.decode("utf-8", "replace").splitlines()
        gpus = [line for line in lines if _GPU_LINE.fullmatch(line.strip())]
        self.notes = [f"nvidia-smi says: {line.strip()[:200]}" for line in lines if line.strip() and line not in gpus][
            :5
        ]
        if not gpus:
            self.reason = self.notes[0] if self.notes else f"nvidia-smi ended with code {self._child.returncode}"
        return "".join(line.strip() + "\n" for line in gpus).encode(), b""

    def _end_child(self) -> None:
        assert self._child is not None
        self._child.kill()
        # Inside the driver it can hang even then; `start` doesn't add a second one.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.communicate(timeout=_KILL_WAIT_S)


def _import_gputil() -> Any:
    """A copy of the module GPUtil.GPUtil of our own, so that nobody else's is changed."""
    try:
        with warnings.catch_warnings():
            # GPUtil 1.4 uses distutils, about which only its author could do something.
            warnings.filterwarnings(
                "ignore", message="The distutils package is deprecated", category=DeprecationWarning
            )
            spec = importlib.util.find_spec("GPUtil.GPUtil")
            if spec is None or spec.loader is None:
                raise SourceError("the package GPUtil is not installed")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
    except ImportError as error:
        hint = "; `pip install setuptools` brings it" if "distutils" in str(error) else ""
        raise SourceError(f"the package GPUtil can't be imported ({error}{hint})") from None
    return module


def _sample(gpu: Any) -> DeviceSample:
    """GPUtil's fields: load from 0 to 1, memory in MiB, degrees Celsius, `nan` for what isn't shown."""
    return DeviceSample(
        uuid=gpu.uuid,
        load_percent=_reading(gpu.load * 100),
        memory_used_bytes=_reading(gpu.memoryUsed * _MIB),
        memory_total_bytes=_reading(gpu.memoryTotal * _MIB),
        temperature_celsius=_reading(gpu.temperature),
        power_watts=missing(_BY_NVML_ONLY),
        processes_reason=_BY_NVML_ONLY,
    )


def _reading(value: float) -> Reading:
    return Reading(round(value, 1), reason=None) if value == value else missing(_NOT_SHOWN)


def _to_bytes(mebibytes: float) -> int | None:
    return int(mebibytes * _MIB) if mebibytes == mebibytes else None
