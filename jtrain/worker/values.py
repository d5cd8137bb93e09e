"""What `run.log` accepts: one real number, wherever it lives, read without making the training wait for a device."""

from __future__ import annotations

import math
import reprlib
from typing import Protocol

import numpy as np
import torch

_ACCEPTED = "a number (float, int, bool, numpy number) or a tensor with one element"


class DeviceValue(Protocol):
    """A value that a device is still computing."""

    def is_ready(self) -> bool:
        """Whether `read` would not wait."""

    def read(self) -> float:
        """The value; waits for the device when it has to."""


class PinnedCopy:
    """A value on its way from a device with streams to pinned memory.

    The copy stands in the device's current stream, so changes in place that follow it don't matter.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        module = torch.get_device_module(tensor.device)
        self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self._host.copy_(tensor, non_blocking=True)
        self._event = module.Event()
        self._event.record(module.current_stream(tensor.device))

    def is_ready(self) -> bool:
        return bool(self._event.query())

    def read(self) -> float:
        self._event.synchronize()
        return float(self._host.item())


class DeviceClone:
    """A value on a device without pinned copies: reading it waits, but in the recorder's thread."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor.clone()

    def is_ready(self) -> bool:
        return True

    def read(self) -> float:
        return float(self._tensor.item())


def read_value(name: str, value: object) -> float | DeviceValue:
    """`value` of the metric `name` as a float, or as a promise of one when it is on a device.

    Raises TypeError or ValueError, naming the metric and what is accepted, when it isn't one real number.
    """
    if isinstance(value, (float, int)):
        return _as_float(value)
    if isinstance(value, torch.Tensor):
        return _read_tensor(name, value)
    if isinstance(value, np.ndarray):
        if value.size != 1:
            raise ValueError(_too_many(name, "an array", value.shape))
        value = value.reshape(())[()]
    if isinstance(value, (str, bytes, complex, np.complexfloating)) or not hasattr(value, "__float__"):
        raise TypeError(_refusal(name, value))
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(_refusal(name, value)) from error


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an int beyond the range of a float
        return math.inf if number > 0 else -math.inf


def _read_tensor(name: str, tensor: torch.Tensor) -> float | DeviceValue:
    if tensor.numel() != 1:
        raise ValueError(_too_many(name, "a tensor", tuple(tensor.shape)))
    if tensor.is_complex() or tensor.is_meta:
        raise TypeError(_refusal(name, tensor))
    if tensor.device.type == "cpu":
        return float(tensor.item())
    return (PinnedCopy if tensor.device.type in ("cuda", "xpu") else DeviceClone)(tensor.detach())


def _refusal(name: str, value: object) -> str:
    shown = "None" if value is None else f"{reprlib.repr(value)} ({type(value).__name__})"
    return f"metric {name!r} was given {shown}; it takes {_ACCEPTED}"


def _too_many(name: str, kind: str, shape: tuple[int, ...]) -> str:
    given = f"metric {name!r} was given {kind} of shape {shape}"
    return f"{given}; it takes {_ACCEPTED}: log its .mean(), or each element under a name of its own"
