"""Captures what a cell uses from the notebook: for the workers (`pack`), or only to say what it would be (`plan`)."""

from __future__ import annotations

import linecache
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jtrain.capture import rebuild
from jtrain.capture.modules import used_submodules
from jtrain.capture.notebook import Notebook, is_kernels, with_dependencies
from jtrain.capture.payload import Output, new_folder, write_payload
from jtrain.capture.pickler import Pickler
from jtrain.capture.problems import find_all, find_kernels_own, refusal_of
from jtrain.capture.reducer import Reducer
from jtrain.errors import CaptureError, nearest


@dataclass(frozen=True)
class NameInfo:
    """A captured variable: its type; what it adds to the payload, in bytes; the cell's line that needs it.

    `needed_by`: the variable through which the cell needs it; empty when the cell uses it itself.
    """

    type: str
    size_bytes: int
    line: int
    needed_by: str = ""


@dataclass(frozen=True)
class Manifest:
    """What was captured. `digest`: xxh3-128 over everything, hexadecimal; empty when nothing was written."""

    names: dict[str, NameInfo]
    digest: str
    total_bytes: int


def pack(
    namespace: Mapping[str, object],
    names: Mapping[str, int],
    target: Path,
    *,
    extra: Iterable[str] = (),
    provided: Iterable[str] = ("run",),
    attributes: Collection[str] = (),
) -> Manifest:
    """Write what the cell uses to the new folder `target`; with nothing to write, the folder isn't made.

    `names`: what the cell reads, with the line where it does; what the notebook doesn't have is left out. `extra`:
    names to capture besides. `provided`: names that workers have by themselves. `attributes`: all names behind a dot in
    the cell, by which submodules are recognised (`torch.utils.tensorboard`).

    Functions and classes come with the globals that they use. Tensors on a GPU arrive on the CPU; a tensor that is the
    result of a computation which tracks gradients arrives as its values. Raises CaptureError that names every variable
    that can't travel, before anything is written to `target`, and OSError for a disk that is full or read-only.
    """
    capture = _Capture(namespace, names, extra, provided, attributes)
    capture.refuse_records()
    if not capture.order and not capture.stand_ins:
        return Manifest({}, "", 0)
    with new_folder(target) as folder:
        index = write_payload(folder, capture.reducer, capture.dump)
    return Manifest(capture.infos, index["digest"], index["values_bytes"] + capture.reducer.regions.total_bytes)


def plan(
    namespace: Mapping[str, object],
    names: Mapping[str, int],
    *,
    extra: Iterable[str] = (),
    provided: Iterable[str] = ("run",),
) -> Manifest:
    """What `pack` would capture, and how large it is, without writing anything. Raises CaptureError as `pack` does."""
    capture = _Capture(namespace, names, extra, provided, ())
    capture.refuse_records()
    output = Output()
    capture.dump(Pickler(output, capture.reducer), output)
    return Manifest(capture.infos, "", output.size + capture.reducer.regions.total_bytes)


class _Capture:
    """One capture: what is taken, in which order, and what came of it."""

    def __init__(
        self,
        namespace: Mapping[str, Any],
        names: Mapping[str, int],
        extra: Iterable[str],
        provided: Iterable[str],
        attributes: Collection[str],
    ) -> None:
        self.notebook = Notebook(namespace, frozenset(provided))
        self.lines = {**dict.fromkeys(self._check(extra), 0), **names}
        self.attributes = attributes
        self.order = with_dependencies(self.notebook, self.lines)
        """What is pickled, with the variable that needs it."""
        self.reducer = Reducer(self.notebook)
        self.infos: dict[str, NameInfo] = {}

    def _check(self, extra: Iterable[str]) -> list[str]:
        found, namespace = list(extra), self.notebook.namespace
        for name in found:
            if not self.notebook.has(name):
                known = [key for key in namespace if not key.startswith("_") and not is_kernels(key, namespace[key])]
                guess = nearest(name, known)
                hint = f"; did you mean {guess!r}?" if guess else ""
                raise CaptureError(f"-i {name}: the notebook has no variable of that name{hint}")
        return found

    def refuse_records(self) -> None:
        """`Out` and its like hold everything that the notebook ever showed: nobody means to send that."""
        findings = find_kernels_own(self.notebook, self.lines)
        if findings:
            raise refusal_of([*findings, *find_all(self.notebook, self.order)], self.order, self.lines)

    @property
    def stand_ins(self) -> list[str]:
        """Names of the kernel that the cell or a function uses, and that a worker can stand in for."""
        used = [name for name in rebuild.STAND_INS if name in self.lines and not self.notebook.has(name)]
        return list(dict.fromkeys([*used, *self.reducer.stand_ins]))

    def dump(self, pickler: Pickler, output: Output) -> dict[str, Any]:
        """Pickle everything, one variable after the other; returns what the index says about it."""
        sizes = self._dump_all(pickler, output)
        self.infos = self._describe(sizes)
        return {
            "names": {name: asdict(info) for name, info in self.infos.items()},
            "imports": used_submodules(self.reducer.packages, {*self.attributes, *self.reducer.used_names}),
            "stand_ins": self.stand_ins,
            "sources": _sources(self.reducer.sources),
        }

    def _dump_all(self, pickler: Pickler, output: Output) -> dict[str, int]:
        """Pickle all variables, and those that define what was met on the way; returns the bytes of each."""
        sizes: dict[str, int] = {}
        waiting = list(self.order)
        try:
            while waiting:
                for name in waiting:
                    before = output.size
                    self.reducer.regions.owner = name
                    pickler.dump(self.notebook.namespace[name])
                    sizes[name] = output.size - before
                waiting = [name for name in self.reducer.definitions if name not in sizes]
        except Exception as error:  # an object's own reduction may raise anything
            if error is output.error:
                raise
            findings = find_all(self.notebook, self.order)
            if not findings:
                raise CaptureError(f"what the cell uses can't be pickled: {type(error).__name__}: {error}") from error
            raise refusal_of(findings, self.order, self.lines) from None
        return sizes

    def _describe(self, sizes: Mapping[str, int]) -> dict[str, NameInfo]:
        big = self.reducer.regions.bytes_by_owner()
        infos = {}
        for name, size in sizes.items():
            needed_by = user = self.order.get(name, "")
            line = self.lines.get(name, 0)
            while not line and user:
                line, user = self.lines.get(user, 0), self.order.get(user, "")
            kind = type(self.notebook.namespace[name]).__qualname__
            infos[name] = NameInfo(kind, size + big.get(name, 0), line, needed_by)
        return infos


def _sources(files: Iterable[str]) -> dict[str, str]:
    """The texts of notebook cells, which are in no file, so that a worker's traceback can show their lines."""
    texts = {name: "".join(linecache.getlines(name)) for name in files if not os.path.exists(name)}
    return {name: text for name, text in texts.items() if text}
