"""Packs what a cell gives back (`-o`), in rank 0."""

from __future__ import annotations

import functools
import shutil
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from jtrain.capture import rebuild
from jtrain.capture.definitions import OwnGlobals
from jtrain.capture.notebook import Notebook
from jtrain.capture.payload import Output, new_folder, write_payload
from jtrain.capture.pickler import Pickler
from jtrain.capture.problems import find_in, sentence
from jtrain.capture.reducer import Handler, Reducer
from jtrain.capture.refusals import full_name
from jtrain.capture.unpack import DEFINITIONS
from jtrain.errors import CaptureError

_WRAPPERS: dict[str, str] = {
    "torch.nn.parallel.distributed.DistributedDataParallel": "module",
    "torch.nn.parallel.data_parallel.DataParallel": "module",
    "torch._dynamo.eval_frame.OptimizedModule": "_orig_mod",
    "accelerate.optimizer.AcceleratedOptimizer": "optimizer",
    "accelerate.scheduler.AcceleratedScheduler": "scheduler",
    "accelerate.data_loader.DataLoaderStateMixin": "base_dataloader",
}
"""What torch and Accelerate put around a user's object, and the attribute that has the object."""


def pack_result(values: Mapping[str, Any], target: Path, *, captured: Mapping[str, Any]) -> None:
    """Write `values` to the folder `target`: models without what was put around them, tensors for the CPU.

    `captured`: what came from the notebook. Its classes and functions are referred to by name, so that the notebook's
    own `isinstance` holds. The live objects stay as they are. Raises CaptureError, after the others were written,
    naming the values that can't be sent back.
    """
    good, problems = {}, []
    for name, value in values.items():
        findings = list(find_in(name, value, lambda: ResultReducer(captured)))
        problems += [sentence(finding, {}, {}) for finding in findings]
        if not findings:
            good[name] = value
    reducer = ResultReducer(captured)
    with new_folder(target) as folder:
        write_payload(folder, reducer, functools.partial(_dump, good))
        _write_definitions(folder / DEFINITIONS, reducer.referred, captured)
    if problems:
        raise CaptureError("\n  ".join(["can't be sent back to the notebook:", *problems]))


def _dump(values: Mapping[str, Any], pickler: Pickler, output: Output) -> dict[str, Any]:
    for value in values.values():
        pickler.dump(value)
    return {"names": list(values)}


def _write_definitions(folder: Path, names: Iterable[str], captured: Mapping[str, Any]) -> None:
    """What the notebook had defined of the classes and functions that the result needs, for a notebook that hasn't."""
    definitions = {name: captured[name] for name in names}
    if not definitions:
        return
    folder.mkdir()
    try:
        write_payload(folder, ResultReducer({}), functools.partial(_dump, definitions))
    except Exception:  # noqa: BLE001 - only a second source: the notebook that started the run has them anyway
        shutil.rmtree(folder)


class ResultReducer(Reducer):
    """Takes results apart. `referred`: the notebook's variables that they refer to by name."""

    def __init__(self, captured: Mapping[str, Any]) -> None:
        super().__init__(Notebook(vars(sys.modules["__main__"]), frozenset({"run"})))
        self.referred: dict[str, None] = {}
        self._captured = Notebook(captured)
        # Functions of the cell take the globals they use along: the notebook's variables are not theirs to change.
        self._main_globals = OwnGlobals({"__name__": "__main__"})

    def reduce(self, obj: Any) -> Any:
        if isinstance(obj, type | types.FunctionType):
            variable = self._captured.variable_of(obj)
            if variable is not None:
                self.referred[variable] = None
                return rebuild.notebook_definition, (obj.__qualname__,)
        return super().reduce(obj)

    def _find_handler(self, kind: type) -> Handler | None:
        for base in map(full_name, kind.__mro__):
            if base in _WRAPPERS:
                return _unwrapper(_WRAPPERS[base])
        return super()._find_handler(kind)


def _unwrapper(attribute: str) -> Callable[[Reducer, Any], Any]:
    def unwrap(reducer: Reducer, wrapper: Any) -> Any:
        return rebuild.same, (getattr(wrapper, attribute),)

    return unwrap
