"""Packs what a cell gives back (`-o`)."""

from __future__ import annotations

import io
import os
import shutil
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jtrain.capture.lookup import from_notebook
from jtrain.capture.pack import Buffers, write_index
from jtrain.capture.pickling import Pickler
from jtrain.capture.refusing import find_path
from jtrain.errors import CaptureError

_ACCELERATED = {"AcceleratedOptimizer": "optimizer", "AcceleratedScheduler": "scheduler"}


class _ResultPickler(Pickler):
    """Unwraps what Accelerate wrapped, and refers to the notebook's own classes instead of copying them."""

    def __init__(self, stream: io.BytesIO, buffers: Buffers, captured: Mapping[str, Any]) -> None:
        super().__init__(stream, [sys.modules["__main__"].__dict__], buffers.take)
        self._captured = {id(value) for value in captured.values() if isinstance(value, type | types.FunctionType)}

    def reducer_override(self, obj: Any) -> Any:
        if id(obj) in self._captured:
            return from_notebook, (obj.__qualname__,)
        kind = type(obj)
        if kind.__module__.startswith("accelerate.") and kind.__name__ in _ACCELERATED:
            return _itself, (getattr(obj, _ACCELERATED[kind.__name__]),)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(obj, torch.nn.Module) and (inner := _unwrap(obj)) is not obj:
            return _itself, (inner,)
        return super().reducer_override(obj)


def _itself(value: Any) -> Any:
    return value


def _unwrap(module: Any) -> Any:
    """The model under DistributedDataParallel, torch.compile and Accelerate's precision wrapper."""
    from accelerate.utils import extract_model_from_parallel

    return extract_model_from_parallel(module, keep_fp32_wrapper=False, keep_torch_compile=False)


def pack_result(values: Mapping[str, Any], target: Path, *, captured: Mapping[str, Any]) -> None:
    """Write `values` to the folder `target`; models unwrapped and everything on the CPU.

    `captured`: what came from the notebook; its classes are referred to by name, so that the notebook's own
    `isinstance` holds. Raises CaptureError, after writing all others, naming the values that can't be sent back.
    """
    aside = target.with_name(f".{target.name}.new")
    good, problems = dict(values), []
    while True:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        problem = _write(good, aside, captured)
        if problem is None:
            break
        # A pickler that failed half-way can't go on, so all is written anew without the one that failed.
        problems.append(problem[1])
        del good[problem[0]]
    shutil.rmtree(target, ignore_errors=True)
    os.rename(aside, target)
    if problems:
        raise CaptureError("not brought back: " + "; ".join(problems))


def _write(values: Mapping[str, Any], aside: Path, captured: Mapping[str, Any]) -> tuple[str, str] | None:
    """Write all values; the name of the first that can't be, and why."""
    stream = io.BytesIO()
    with open(aside / "buffers.bin", "wb", buffering=0) as file:
        buffers = Buffers(file)
        pickler = _ResultPickler(stream, buffers, captured)
        for name, value in values.items():
            try:
                pickler.dump(value)
            except Exception as error:  # noqa: BLE001 - whatever a value's own reduction raises, the others still go
                return name, _problem(name, value, pickler.last, error)
    write_index(aside, stream, buffers, names=list(values))
    return None


def _problem(name: str, value: Any, last: Any, error: Exception) -> str:
    path = find_path(name, value, last) or name
    return f"{path} is a {type(last).__name__}, which can't leave its process ({type(error).__name__}: {error})"
