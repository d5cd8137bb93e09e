"""The pickler behind captures and results: cloudpickle, with the notebook's namespace and big buffers taken care of."""

from __future__ import annotations

import marshal
import pickle
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any

import cloudpickle

IN_BAND_BYTES = 16 * 1024
"""Smaller buffers stay inside the pickle: a mapping of their own would cost a page each."""


class _MainNamespace:
    """Stands for the notebook's namespace; unpickles as that of the worker's main program."""

    def __reduce__(self) -> tuple[Callable[[], dict[str, Any]], tuple[()]]:
        return main_namespace, ()


def main_namespace() -> dict[str, Any]:
    """The namespace of this process's main program."""
    return sys.modules["__main__"].__dict__


class Pickler(cloudpickle.Pickler):
    """Pickles objects of a notebook.

    Functions whose globals are one of `namespaces` find those of the worker's main program there. Tensors hand out
    their storage as a buffer, once per storage. `last` is the object that was being reduced when a dump failed;
    `code_files` the files whose functions were met; `found` the named functions and classes of the namespaces.
    """

    def __init__(
        self, file: IO[bytes], namespaces: Iterable[Mapping[str, Any]], buffer_callback: Callable[[Any], object]
    ) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffer_callback)
        self.namespaces = list(namespaces)
        placeholder = _MainNamespace()
        for namespace in self.namespaces:
            self.globals_ref[id(namespace)] = placeholder
        self.last: object = None
        self.code_files: set[str] = set()
        self.found: dict[str, Any] = {}
        self._storages: dict[int, Any] = {}
        self._kept: list[Any] = []

    def reducer_override(self, obj: Any) -> Any:
        self.last = obj
        if isinstance(obj, types.FunctionType):
            if any(obj.__globals__ is namespace for namespace in self.namespaces):
                self.code_files.add(obj.__code__.co_filename)
            self._note(obj)
        elif isinstance(obj, types.CodeType):
            # cloudpickle forgets the file that code comes from, and with it the lines of a traceback.
            return marshal.loads, (marshal.dumps(obj),)
        elif isinstance(obj, type):
            self._note(obj)
        elif (torch := sys.modules.get("torch")) is not None:
            if isinstance(obj, torch.storage.TypedStorage):
                return _typed_storage, (self._untyped(obj._untyped_storage), obj.dtype)
            if isinstance(obj, torch.storage.UntypedStorage):
                return _untyped_storage, (pickle.PickleBuffer(self._bytes(obj)),)
        return super().reducer_override(obj)

    def _note(self, obj: Any) -> None:
        name = obj.__qualname__
        if any(namespace.get(name) is obj for namespace in self.namespaces):
            self.found.setdefault(name, obj)

    def _untyped(self, storage: Any) -> Any:
        """One object for each storage, whichever tensors show it: the pickle then holds it once."""
        if storage.device.type != "cpu":
            key = hash((storage.device, storage.data_ptr()))
            self._kept.append(storage)
            if key not in self._storages:
                self._storages[key] = storage.cpu()
            return self._storages[key]
        return self._storages.setdefault(storage._cdata, storage)

    def _bytes(self, storage: Any) -> Any:
        torch = sys.modules["torch"]
        view = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
        self._kept.append(view)
        return view


def _untyped_storage(buffer: Any) -> Any:
    import torch

    if len(buffer) == 0:
        return torch.UntypedStorage(0)
    return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()


def _typed_storage(untyped: Any, dtype: Any) -> Any:
    import torch

    return torch.storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def size_of(buffer: Any) -> int:
    """Bytes of a PickleBuffer."""
    return memoryview(buffer).nbytes
