"""What can't travel to another process: recognized by its type, and said to people with what to do instead."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from jtrain.capture.inside import find_path


@dataclass(frozen=True)
class Kind:
    """A kind of thing that belongs to its process."""

    what: str
    advice: str


_HERE = "make it inside the cell"
_FILE = Kind("an open file", "open it inside the cell, and capture its path")
_LOCK = Kind("a lock", "make it inside the cell, or leave it out with __getstate__")
_SYNC = Kind("a means of synchronizing threads", "make it inside the cell, or leave it out with __getstate__")
_EXECUTOR = Kind("a pool of workers", _HERE)
_LOOP = Kind("part of an event loop", "capture its result")
_CONNECTION = Kind("a connection", "connect inside the cell, and capture the address")
_PROCESS = Kind("a running process", "start it inside the cell")
_GENERATOR = Kind("a generator", "call the generator function inside the cell, or capture list(...) of it")
_LOADER = Kind("an iterator of a DataLoader", "capture the DataLoader, and iterate inside the cell")
_WEAK = Kind("a weak reference", "capture the object itself")
_CONTEXT = Kind("a context variable", "capture its value: .get()")
_FRAME = Kind("a running frame", "capture the values that you need of it")
_SCRIPT = Kind("a TorchScript program", "torch.jit.save it to a file, and torch.jit.load it inside the cell")
_PREPARED = Kind("prepared by an Accelerator", "capture what was given to prepare(), and prepare inside the cell")
_ACCELERATOR = Kind(
    "an Accelerator of the notebook's process",
    "make it inside the cell, or use run.accelerator; if the cell does, `del` the notebook's",
)
_DISPLAY = Kind("shown in the notebook", "make it inside the cell, or leave it out")
_MAPPING = Kind("a mapped file", "map it inside the cell")

KINDS: dict[str, Kind] = {
    "_io.TextIOWrapper": _FILE,
    "_io.BufferedReader": _FILE,
    "_io.BufferedWriter": _FILE,
    "_io.BufferedRandom": _FILE,
    "_io.BufferedRWPair": _FILE,
    "_io.FileIO": _FILE,
    "tempfile._TemporaryFileWrapper": _FILE,
    "tempfile.TemporaryDirectory": Kind("a temporary folder", "make it inside the cell, and capture its name"),
    "zipfile.ZipFile": _FILE,
    "tarfile.TarFile": _FILE,
    "h5py._hl.base.HLObject": _FILE,
    "posix.ScandirIterator": _FILE,
    "logging.Handler": Kind("a handler of log messages", "add it to the logger inside the cell"),
    "mmap.mmap": _MAPPING,
    "_thread.lock": _LOCK,
    "_thread.RLock": _LOCK,
    "threading.Condition": _SYNC,
    "threading.Event": _SYNC,
    "threading.Semaphore": _SYNC,
    "threading.Barrier": _SYNC,
    "_thread._local": Kind("values of a thread", _HERE),
    "threading.Thread": Kind("a thread", "start it inside the cell"),
    "multiprocessing.synchronize.SemLock": _SYNC,
    "multiprocessing.synchronize.Event": _SYNC,
    "multiprocessing.synchronize.Condition": _SYNC,
    "multiprocessing.process.BaseProcess": _PROCESS,
    "multiprocessing.queues.Queue": Kind("a queue between processes", _HERE),
    "multiprocessing.queues.SimpleQueue": Kind("a queue between processes", _HERE),
    "multiprocessing.pool.Pool": _EXECUTOR,
    "multiprocessing.managers.BaseManager": _PROCESS,
    "queue.Queue": Kind("a queue between threads", _HERE),
    "_queue.SimpleQueue": Kind("a queue between threads", _HERE),
    "concurrent.futures._base.Executor": _EXECUTOR,
    "concurrent.futures._base.Future": _LOOP,
    "subprocess.Popen": _PROCESS,
    "asyncio.events.AbstractEventLoop": _LOOP,
    "_asyncio.Future": _LOOP,
    "_asyncio.Task": _LOOP,
    "builtins.generator": _GENERATOR,
    "builtins.async_generator": _GENERATOR,
    "builtins.coroutine": Kind("a coroutine", "await it, and capture its result"),
    "builtins.frame": _FRAME,
    "builtins.traceback": _FRAME,
    "weakref.ReferenceType": _WEAK,
    "weakref.ProxyType": _WEAK,
    "weakref.CallableProxyType": _WEAK,
    "_contextvars.ContextVar": _CONTEXT,
    "_contextvars.Context": _CONTEXT,
    "_contextvars.Token": _CONTEXT,
    "sqlite3.Connection": _CONNECTION,
    "sqlite3.Cursor": _CONNECTION,
    "_socket.socket": _CONNECTION,
    "_ssl._SSLSocket": _CONNECTION,
    "requests.sessions.Session": _CONNECTION,
    "tqdm.std.tqdm": Kind("a tqdm bar", _HERE),
    "torch.utils.data.dataloader._BaseDataLoaderIter": _LOADER,
    "torch.jit._script.ScriptModule": _SCRIPT,
    "torch.ScriptFunction": _SCRIPT,
    "torch.jit.ScriptFunction": _SCRIPT,
    "torch.ScriptModule": _SCRIPT,
    "torch._C.ScriptFunction": _SCRIPT,
    "torch._C.ScriptModule": _SCRIPT,
    "torch.utils.tensorboard.writer.SummaryWriter": Kind("a writer of TensorBoard files", _HERE),
    "accelerate.accelerator.Accelerator": _ACCELERATOR,
    "accelerate.optimizer.AcceleratedOptimizer": _PREPARED,
    "accelerate.scheduler.AcceleratedScheduler": _PREPARED,
    "accelerate.data_loader.DataLoaderAdapter": _PREPARED,
    "accelerate.data_loader.DataLoaderShard": _PREPARED,
    "accelerate.data_loader.DataLoaderDispatcher": _PREPARED,
    "accelerate.state.PartialState": _ACCELERATOR,
    "accelerate.state.AcceleratorState": _ACCELERATOR,
    "IPython.core.interactiveshell.InteractiveShell": Kind("IPython itself", "the workers have no IPython"),
    "ipykernel.iostream.OutStream": _FILE,
    "ipywidgets.widgets.widget.Widget": _DISPLAY,
    "IPython.core.display_functions.DisplayHandle": _DISPLAY,
}
"""By the type's module and name; subclasses are of the same kind."""


class Untravelable(Exception):
    """Raised while pickling at an object that can't travel."""


def kind_of(type_: type) -> Kind | None:
    """The kind that objects of `type_` are of, when they can't travel."""
    for base in type_.__mro__:
        kind = KINDS.get(f"{base.__module__}.{base.__qualname__}")
        if kind is not None:
            return kind
    return None


def standard_stream(value: object) -> str | None:
    """The name in `sys` of the stream that `value` is: every process has its own."""
    for name in ("stdout", "stderr", "stdin", "__stdout__", "__stderr__", "__stdin__"):
        if getattr(sys, name, None) is value:
            return name
    return None


# For people ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """A variable that can't travel, the line where the cell uses it, and a sentence that says why and what to do."""

    name: str
    line: int
    sentence: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.name}: {self.sentence}"


def explain(name: str, value: object, culprit: object, error: BaseException) -> str:
    """Why the variable `name` can't travel, when pickling it failed at `culprit`."""
    path = find_path(name, value, culprit)
    if path is None:
        path, kind = f"something in {name}", kind_of(type(culprit))
    else:
        kind = kind_of(type(culprit))
    if kind is not None:
        return f"{path} is {kind.what} ({type_name(culprit)}); {kind.advice}"
    if _is_too_deep(error):
        return (
            f"it is nested more than {sys.getrecursionlimit():,} levels deep ({type_name(value)}); keep it flat, for "
            "instance in a list, or build it inside the cell"
        )
    return f"{path} ({type_name(culprit)}) can't be pickled: {_reason(error)}; build it inside the cell"


def type_name(value: object) -> str:
    """The type as people write it."""
    kind = type(value)
    hidden = kind.__module__ in ("builtins", "__main__")
    return kind.__qualname__ if hidden else f"{kind.__module__}.{kind.__qualname__}"


def _reason(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - the error is the user's own, and so is what its text does
        text = ""
    text = text if len(text) <= 200 else text[:199] + "…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_too_deep(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, RecursionError):
            return True
        error = error.__cause__
    return False
