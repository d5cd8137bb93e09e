"""What can't travel to another process, and what to do instead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """A kind of object: what people call it, and what to do instead of capturing it."""

    what: str
    advice: str


class Refused(TypeError):
    """Raised while an object is pickled that must not travel, though it may be picklable."""


_OPEN_INSIDE = "open it inside the cell"
_MAKE_INSIDE = "make it inside the cell"
_PREPARE_INSIDE = "use what it was before accelerator.prepare(...), and prepare it inside the cell"

_KINDS: dict[Refusal, tuple[str, ...]] = {
    Refusal("an open file", _OPEN_INSIDE): ("_io._IOBase", "tempfile._TemporaryFileWrapper", "zipfile.ZipFile"),
    Refusal("a memory map", _OPEN_INSIDE): ("mmap.mmap",),
    Refusal("a temporary folder", _MAKE_INSIDE): ("tempfile.TemporaryDirectory",),
    Refusal("a lock", _MAKE_INSIDE): (
        "_thread.lock",
        "_thread.RLock",
        "threading.Condition",
        "threading.Semaphore",
        "threading.Barrier",
        "multiprocessing.synchronize.SemLock",
        "asyncio.locks.Lock",
    ),
    Refusal("an event of threads or processes", _MAKE_INSIDE): (
        "threading.Event",
        "multiprocessing.synchronize.Event",
        "asyncio.locks.Event",
    ),
    Refusal("a thread", "start it inside the cell"): ("threading.Thread",),
    Refusal("a variable of one thread", _MAKE_INSIDE): ("_thread._local",),
    Refusal("a pool of threads or processes", _MAKE_INSIDE): (
        "concurrent.futures._base.Executor",
        "multiprocessing.pool.Pool",
    ),
    Refusal("a queue", _MAKE_INSIDE): ("queue.Queue", "multiprocessing.queues.Queue", "_queue.SimpleQueue"),
    Refusal("a process", "start it inside the cell"): ("subprocess.Popen", "multiprocessing.process.BaseProcess"),
    Refusal("a running generator", "capture its function or a list, and start it inside the cell"): (
        "builtins.generator",
        "builtins.async_generator",
    ),
    Refusal("a coroutine", "await it in the notebook and capture its result"): (
        "builtins.coroutine",
        "_asyncio.Future",
        "asyncio.futures.Future",
    ),
    Refusal("an event loop", "use asyncio.run(...) inside the cell"): ("asyncio.events.AbstractEventLoop",),
    Refusal("a database connection", "connect inside the cell"): (
        "sqlite3.Connection",
        "sqlite3.Cursor",
        "sqlalchemy.engine.base.Engine",
        "sqlalchemy.engine.base.Connection",
        "psycopg2.extensions.connection",
        "duckdb.duckdb.DuckDBPyConnection",
    ),
    Refusal("a network connection", "connect inside the cell"): ("_socket.socket", "ssl.SSLSocket"),
    Refusal("an open HDF5 file", _OPEN_INSIDE): ("h5py._hl.base.HLObject",),
    Refusal("a log handler", "add it to the logger inside the cell; a logger itself can be captured"): (
        "logging.Handler",
    ),
    Refusal("a context variable", "capture its value instead"): (
        "_contextvars.ContextVar",
        "_contextvars.Context",
        "_contextvars.Token",
    ),
    Refusal("a weak reference", "capture the object itself"): (
        "weakref.ReferenceType",
        "weakref.ProxyType",
        "weakref.CallableProxyType",
    ),
    Refusal("a running frame", "capture the values in it instead"): ("builtins.frame", "builtins.traceback"),
    Refusal("a progress bar", _MAKE_INSIDE): ("tqdm.std.tqdm", "rich.progress.Progress"),
    Refusal("an iterator of a DataLoader", "capture the DataLoader, and iterate inside the cell"): (
        "torch.utils.data.dataloader._BaseDataLoaderIter",
    ),
    Refusal("a run", "name it by its id inside the cell: jtrain.Run(run_id)"): ("jtrain.run.Run",),
    Refusal("the handle of a run", "leave it out: it belongs to the worker"): ("jtrain.worker.handle.WorkerRun",),
    Refusal("a TorchScript program", "make it with torch.jit.script inside the cell"): (
        "torch.jit._script.ScriptModule",
        "torch.jit.ScriptFunction",
    ),
    Refusal("an Accelerator", "make it inside the cell, where it finds the workers, or use run.accelerator"): (
        "accelerate.accelerator.Accelerator",
        "accelerate.state.PartialState",
        "accelerate.state.AcceleratorState",
        "accelerate.state.GradientState",
    ),
    Refusal("something that an Accelerator prepared in the notebook", _PREPARE_INSIDE): (
        "accelerate.optimizer.AcceleratedOptimizer",
        "accelerate.scheduler.AcceleratedScheduler",
        "accelerate.data_loader.DataLoaderStateMixin",
    ),
    Refusal("a process group", "run.prepare(...) takes care of it; torch.distributed is ready inside the cell"): (
        "torch.distributed.distributed_c10d.ProcessGroup",
    ),
    Refusal("a CUDA stream or event", _MAKE_INSIDE): (
        "torch.Stream",
        "torch.Event",
        "torch.cuda.streams.Stream",
        "torch.cuda.streams.Event",
    ),
    Refusal("a log writer", _MAKE_INSIDE): (
        "torch.utils.tensorboard.writer.SummaryWriter",
        "tensorboardX.writer.SummaryWriter",
        "wandb.sdk.wandb_run.Run",
    ),
    Refusal("a widget", "capture its value instead"): ("ipywidgets.widgets.widget.Widget",),
    Refusal("a part of IPython", "capture the value itself"): ("IPython.core.interactiveshell.InteractiveShell",),
}

_ALLOWED = frozenset({"_io.StringIO", "_io.BytesIO"})

REFUSED: dict[str, Refusal] = {name: refusal for refusal, names in _KINDS.items() for name in names}
"""By the full name of a class, which stands for its subclasses too."""

KERNELS_OWN = Refusal("the notebook's own record", "assign what you need of it to a variable in a cell above")
"""`In`, `Out` and the like."""


def full_name(kind: type) -> str:
    """`module.Class`, as the table names classes."""
    return f"{kind.__module__}.{kind.__qualname__}"


def find_refusal(kind: type) -> Refusal | None:
    """Whether instances of a class must not travel, and why."""
    for base in map(full_name, kind.__mro__):
        if base in _ALLOWED:
            return None
        if (refusal := REFUSED.get(base)) is not None:
            return refusal
    return None
