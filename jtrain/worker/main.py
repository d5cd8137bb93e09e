"""A rank's first and last lines."""

from __future__ import annotations

import atexit
import builtins
import ctypes
import linecache
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed

from jtrain.capture.results import pack_result
from jtrain.capture.unpack import read_sources, unpack
from jtrain.domain.spec import CALL_PREFIX, RunSpec, Source
from jtrain.domain.worker import EXIT_FAILED, EXIT_FINISHED, EXIT_PAUSED, WorkerContext
from jtrain.errors import CaptureError, nearest
from jtrain.store.paths import AttemptPaths, RunPaths
from jtrain.store.ranks import RankRow, RankTable
from jtrain.worker.course import Paused
from jtrain.worker.failure import Frames, describe, exit_record, write_record
from jtrain.worker.handle import WorkerRun
from jtrain.worker.output import redirect_output
from jtrain.worker.packages import look_for_packages_once
from jtrain.worker.randomness import seed_all
from jtrain.worker.tracker import install_tracker

_BDB_QUIT = "<class 'bdb.BdbQuit'>"
"""By its name: nothing else here needs the debugger's module."""
_NO_INPUT = "EOF when reading a line"
_NO_KEYBOARD = (
    "(nobody can type into a worker: give it what it would ask for as a variable of the notebook; debug in "
    "a cell without %%jtrain)"
)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_END_GRACE_S = 10.0
"""How long exit handlers of the cell's libraries may take."""


def run_rank(context: WorkerContext) -> None:
    """Be one rank: run the program of the spec and end this process. Called in a fresh process; never returns."""
    paths = RunPaths(Path(context.run_root))
    attempt = paths.attempt(context.attempt)
    _die_with_supervisor()
    _reset_process()
    redirect_output(attempt.log(context.rank))
    table = RankTable.open(attempt.ranks)
    row = table.row(context.rank)
    row.pid = os.getpid()
    _catch_notices(row)
    code = EXIT_FAILED
    try:
        code = _Rank(context, paths, attempt, table).run()
    except BaseException:  # noqa: BLE001 - jtrain's own failure: its traceback belongs in the log, the exit code tells
        traceback.print_exc()
    finally:
        row.done = int(code == EXIT_FINISHED)
        _end(code)


class _Rank:
    def __init__(self, context: WorkerContext, paths: RunPaths, attempt: AttemptPaths, table: RankTable) -> None:
        self.context = context
        self.paths = paths
        self.attempt = attempt
        self.pid = os.getpid()
        self.row = table.row(context.rank)
        self.spec = RunSpec.model_validate_json(paths.spec.read_bytes())
        self.run_handle = WorkerRun(context, self.spec, paths, table)
        self.main = _new_main(self.run_handle, self.spec)
        self.frames = Frames({self.spec.source.filename}, self.spec.workdir)
        self.captured: dict[str, Any] = {}

    def run(self) -> int:
        """Run the program to its end and return the process's exit code."""
        _prepare_process(self.spec)
        run = self.run_handle
        look_for_packages_once()
        install_tracker(run.recorder, self.attempt.root / f"tracker-config-{run.rank}.json")
        self.row.heartbeat = time.time()
        try:
            self.captured = self._unpack()
            result = _execute(self.spec.source, self.main)
            _leave_if_forked(self.pid)
            run.course.finish()
            if not run.course.has_paused:
                self._give_back(result)
            code = EXIT_FINISHED
        except BaseException as error:  # noqa: BLE001 - whatever the cell raises is told to the user
            _leave_if_forked(self.pid, error)
            code = EXIT_PAUSED if isinstance(error, Paused) else self._ended_by(error)
        run.saver.drain()
        run.recorder.close()
        return EXIT_PAUSED if run.course.has_paused else code

    def _unpack(self) -> dict[str, Any]:
        if not self.paths.payload.exists():
            return {}
        sources = read_sources(self.paths.payload)
        for filename, text in sources.items():
            _remember_source(filename, text)
        self.frames = Frames({self.spec.source.filename, *sources}, self.spec.workdir)
        return unpack(self.paths.payload, self.main.__dict__).values

    def _give_back(self, result: Any) -> None:
        """Pack what `-o` names. Raises NameError, naming the nearest, for a variable that isn't there; the others are
        packed first."""
        if self.context.rank != 0:
            return
        values = {"return": result} if self.spec.source.kind == "function" else {}
        missing = self._add_outputs(values)
        self._pack(values)
        if missing:
            guess = nearest(missing[0], [key for key in self.main.__dict__ if not key.startswith("_")])
            hint = f"; did you mean {guess!r}?" if guess else ""
            rest = f" (jtrain.Run({self.spec.id!r}).outputs() has the others)" if values else ""
            raise NameError(f"-o {', '.join(missing)}: the cell has no variable of that name at its end{hint}{rest}")

    def _add_outputs(self, values: dict[str, Any]) -> list[str]:
        """Add what `-o` names to `values`; returns the names that aren't there."""
        main, names = self.main.__dict__, self.spec.options.outputs
        values.update({name: main[name] for name in names if name in main})
        return [name for name in names if name not in main]

    def _pack(self, values: dict[str, Any]) -> None:
        if not values:
            return
        try:
            pack_result(values, self.paths.result, captured=self.captured)
        except CaptureError as error:
            self.run_handle.notify("warning", str(error))
        except OSError as error:
            names = ", ".join(values)
            error.add_note(
                f"({names} could not be written for the notebook to {self.paths.root}. Make room (`%jtrain clean` "
                f"removes old runs); then `%jtrain resume {self.spec.id}` goes on from the last checkpoint)"
            )
            raise

    def _ended_by(self, error: BaseException) -> int:
        """Tell the user what the cell raised; the exit code."""
        run = self.run_handle
        if str(type(error)) == _BDB_QUIT or (isinstance(error, EOFError) and error.args == (_NO_INPUT,)):
            error.add_note(_NO_KEYBOARD)
        record: dict[str, Any] | None = describe(error, run.rank, run.global_step, self.frames)
        if run.course.has_paused:
            run.notify("warning", f"the run has paused; while the cell ended it raised {_headline(record)}")
            return EXIT_PAUSED
        code = EXIT_FAILED
        if isinstance(error, SystemExit):
            code, record = exit_record(error, record or {})
        if record is None:
            return self._exited_well()
        write_record(self.attempt.error(run.rank), record)
        if isinstance(error, Exception):
            run.course.save_after_failure()
        sys.stderr.write(f"{record['message']}\n" if isinstance(error, SystemExit) else record["text"])
        return code

    def _exited_well(self) -> int:
        self.run_handle.notify("info", f"rank {self.context.rank} ended itself with sys.exit(0)")
        if self.context.rank == 0:
            values: dict[str, Any] = {}
            self._add_outputs(values)  # what it had not come to is not missed: it ended on purpose
            self._pack(values)
        return EXIT_FINISHED


def _headline(record: Mapping[str, Any] | None) -> str:
    return f"{record['type']}: {record['message']}" if record else "nothing"


# The process --------------------------------------------------------------------------------------------------------


def _die_with_supervisor() -> None:
    """No rank outlives its supervisor (Linux)."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent == 1 or os.getppid() != parent:
        os._exit(EXIT_FAILED)


def _reset_process() -> None:
    """Undo what this process has from those it was forked from."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    atexit._clear()


def _catch_notices(row: RankRow) -> None:
    """A signal that announces the machine's end (a scheduler's, a container's) pauses the whole run."""
    owner = os.getpid()

    def note(number: int, _: Any) -> None:
        if os.getpid() == owner:
            row.told_to_end = number
            return
        signal.signal(number, signal.SIG_DFL)  # in a DataLoader worker: it is meant for that process alone
        os.kill(os.getpid(), number)

    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, note)


def _prepare_process(spec: RunSpec) -> None:
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit():
        # The OpenMP library read its environment before this process was forked.
        torch.set_num_threads(int(threads))
    if sys.platform == "linux":
        # From Python 3.14 on the default is another, under which DataLoader workers can't have classes of the notebook.
        multiprocessing.set_start_method("fork", force=True)
    sys.path[:] = list(spec.sys_path) or sys.path
    try:
        os.chdir(spec.workdir)
    except OSError as error:
        print(f"jtrain: the working folder {spec.workdir} can't be entered: {error.strerror}", file=sys.stderr)
    seed_all(spec.seed)


def _new_main(run: WorkerRun, spec: RunSpec) -> types.ModuleType:
    """A fresh main program, which knows `run`."""
    main = types.ModuleType("__main__")
    main.__dict__.update({"run": run, "__builtins__": builtins})
    if spec.source.kind == "script":
        main.__file__ = spec.source.filename
        sys.argv[:] = [spec.source.filename, *spec.source.argv]
    sys.modules["__main__"] = main
    return main


def _execute(source: Source, main: types.ModuleType) -> Any:
    namespace = main.__dict__
    if source.kind == "function":
        return _call(namespace)
    # Empty lines in front give the code the line numbers that it has in its cell.
    text = "\n" * (source.first_line - 1) + source.text
    _remember_source(source.filename, text)
    if source.kind == "script":
        sys.path.insert(0, str(Path(source.filename).parent))
    exec(compile(text, source.filename, "exec", dont_inherit=True), namespace)
    return None


def _call(namespace: dict[str, Any]) -> Any:
    function, arguments, keywords = (namespace[f"{CALL_PREFIX}{part}"] for part in ("fn", "args", "kwargs"))
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
    if "run" in names[len(arguments) :] and "run" not in keywords:
        keywords = {**keywords, "run": namespace["run"]}
    return function(*arguments, **keywords)


def _remember_source(filename: str, text: str) -> None:
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)


def _leave_if_forked(owner: int, error: BaseException | None = None) -> None:
    """End a process that the cell forked and that came to the cell's end, too: the run is its parent's alone, so it
    writes down no result and no error of the rank, and doesn't touch the process group that it was born with."""
    if os.getpid() == owner:
        return
    code = EXIT_FINISHED
    if isinstance(error, SystemExit):
        code, _ = exit_record(error, {"message": ""})
    elif error is not None:
        traceback.print_exception(error)
        code = EXIT_FAILED
    _flush()
    os._exit(code)


def _end(code: int) -> None:
    """End the process with `code`, whatever threads and exit handlers the cell's libraries left."""
    ender = threading.Thread(target=_run_exit_handlers, daemon=True)
    ender.start()
    ender.join(_END_GRACE_S)
    _flush()
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # a full disk or a stream that the cell closed: nothing is left to be said


def _run_exit_handlers() -> None:
    atexit._run_exitfuncs()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
