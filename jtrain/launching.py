"""From a cell, a function or a script to a run: options and code become a spec, a folder, and a supervisor."""

from __future__ import annotations

import contextlib
import functools
import getpass
import importlib.metadata
import inspect
import os
import platform
import random
import re
import reprlib
import socket
import sys
import time
import types
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from jtrain.capture.cell import parse_cell
from jtrain.capture.pack import Manifest, pack, plan
from jtrain.config import load_config, parse_config
from jtrain.devices.choose import Want, ask, is_picker, list_chosen
from jtrain.devices.sampler import cpu_slots, visible_devices
from jtrain.domain.spec import CALL_PREFIX, RunSpec, Source
from jtrain.engine.environment import is_secret
from jtrain.engine.zygote import start
from jtrain.errors import LaunchError, OptionError, nearest
from jtrain.interrupts import held
from jtrain.options import RunOptions, make_options
from jtrain.resuming import Origin, find_origin, link_checkpoint
from jtrain.run import Run
from jtrain.store.choice import read_choice
from jtrain.store.paths import store_root
from jtrain.store.runs import RunStore

_RECORDED_PACKAGES = ("jtrain", "torch", "accelerate", "numpy")
_PROVIDED = ("run",)
_MAKES_ANY_NAME = re.compile(r"\bimport\s*\*|\b(?:exec|globals|setattr|vars|__main__)\b")
"""Code that may give variables names which can't be seen in it."""


def launch_cell(
    source: str,
    namespace: Mapping[str, object],
    options: RunOptions,
    *,
    filename: str = "<cell>",
    first_line: int = 2,
    notebook: str = "",
) -> Run:
    """Start a run of a cell's body.

    `namespace`: the notebook's variables, from which what the cell uses is captured. `first_line`: the number that the
    body's first line has in its cell. Raises CellSyntaxError, CaptureError, OptionError, DeviceError, StoreError,
    LaunchError.
    """
    cell = parse_cell(source, filename, first_line=first_line)
    code = Source(kind="cell", text=source, filename=filename, first_line=first_line)
    return _launch(code, namespace, cell.names, options, notebook=notebook, attributes=cell.attributes)


def plan_cell(source: str, namespace: Mapping[str, object], options: RunOptions, *, first_line: int = 2) -> LaunchPlan:
    """What `launch_cell` would do, without doing it (`--dry-run`)."""
    cell = parse_cell(source, "<cell>", first_line=first_line)
    options, _ = _with_config(options)
    options = _with_choice(options)
    want = _check_devices(options)
    return LaunchPlan(options, want, plan(namespace, cell.names, extra=options.inputs, provided=_PROVIDED))


def launch(fn: Callable[..., Any], *args: Any, **options: Any) -> Run:
    """Start a run of `fn(*args)` on every rank; `run.result()` waits and gives rank 0's return value.

    Keyword arguments are run options (`nproc=2`, `precision="bf16"`, …); `kwargs={...}` passes keyword arguments to
    `fn`.
    A function with a parameter named `run` that isn't filled gets the worker's handle.
    """
    if not callable(fn):
        raise LaunchError(f"launch takes a function and its arguments, not {type(fn).__name__} {reprlib.repr(fn)}")
    kwargs = options.pop("kwargs", {})
    try:
        text = inspect.getsource(fn)
    except (OSError, TypeError):
        text = ""
    name = getattr(fn, "__qualname__", type(fn).__name__)
    code = Source(kind="function", text=text, filename=name)
    call = {f"{CALL_PREFIX}{part}": value for part, value in (("fn", fn), ("args", args), ("kwargs", kwargs))}
    namespace = {**vars(sys.modules["__main__"]), **call}
    return _launch(code, namespace, dict.fromkeys(call, 0), make_options(**options))


def launch_script(
    path: str | Path, argv: tuple[str, ...] = (), options: RunOptions | None = None, text: str | None = None
) -> Run:
    """Start a run of a Python script as the main program of every rank.

    `text` replaces the file's content (a notebook's cells joined). Raises LaunchError when the file can't be read.
    """
    script = Path(path).absolute()
    try:
        content = script.read_text(encoding="utf-8") if text is None else text
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"{script} can't be read as a Python script: {error}") from error
    parse_cell(content, str(script), first_line=1, is_script=True)
    code = Source(kind="script", text=content, filename=str(script), argv=argv)
    return _launch(code, {}, {}, options or RunOptions())


class LaunchPlan:
    """What a launch would use and send: shown by `--dry-run`."""

    def __init__(self, options: RunOptions, want: Want, manifest: Manifest) -> None:
        self.options = options
        self.want = want
        self.manifest = manifest


def _launch(
    code: Source,
    namespace: Mapping[str, object],
    names: Mapping[str, int],
    options: RunOptions,
    *,
    notebook: str = "",
    attributes: Collection[str] = (),
) -> Run:
    _refuse_platform()
    if options.launcher:
        raise OptionError("--launcher shows a form below a cell of a notebook: %%jtrain --launcher")
    options, config = _with_config(options)
    options = _with_choice(options)
    _check_devices(options)
    store = RunStore()
    store.prepare()
    options, secrets = _split_secrets(options)
    origin = find_origin(store, options, code, workdir=_workdir())
    run_id = store.new_id()
    try:
        with contextlib.ExitStack() as until_it_runs:
            with store.create(run_id) as paths:
                given = {"extra": options.inputs, "provided": _PROVIDED, "attributes": attributes}
                manifest = pack(namespace, names, paths.payload, **given)
                _check_outputs(code, options.outputs, {name: namespace[name] for name in manifest.names})
                spec = _make_spec(run_id, code, options, config, manifest, origin, notebook)
                store.write_spec(paths, spec)
                if origin is not None:
                    link_checkpoint(origin, paths)
                until_it_runs.enter_context(held())
            start(store.find(run_id).root, secrets)
    except KeyboardInterrupt:
        if store.paths.run(run_id).spec.exists():
            Run(run_id, store).stop()
        raise
    return Run(run_id, store)


def _make_spec(
    run_id: str,
    code: Source,
    options: RunOptions,
    config: dict[str, Any],
    manifest: Manifest,
    origin: Origin | None,
    notebook: str,
) -> RunSpec:
    seed = (
        options.seed
        if options.seed is not None
        else (origin.seed if origin else random.SystemRandom().randrange(2**31))
    )
    return RunSpec(
        id=run_id,
        name=options.name or run_id,
        created=time.time(),
        seed=seed,
        source=code,
        options=options,
        config=config,
        captured=tuple(manifest.names),
        payload_digest=manifest.digest,
        workdir=_workdir(),
        sys_path=tuple(path for path in sys.path if _is_text(path)),
        notebook=notebook or os.environ.get("JPY_SESSION_NAME", ""),
        resumed_from=f"{origin.run_id}/{origin.checkpoint}" if origin else "",
        user=getpass.getuser(),
        host=socket.gethostname(),
        python=platform.python_version(),
        packages=_package_versions(),
    )


def _with_config(options: RunOptions) -> tuple[RunOptions, dict[str, Any]]:
    """The options together with those in the config (`--config`, `--set`), and the config (`run.config`).

    What was given as an option goes before the config. Raises ConfigError.
    """
    if not options.config and not options.set:
        return options, {}
    config = load_config(options.config, options.set) if options.config else parse_config("", "--set", options.set)
    given = {name: getattr(options, name) for name in options.model_fields_set}
    return make_options(**{**config.run_options(), **given}), config.as_dict()


def _with_choice(options: RunOptions) -> RunOptions:
    """The options with the devices that `--gpus picker` stands for now. Raises DeviceError, OptionError, StoreError."""
    if not is_picker(options.gpus):
        return options
    listed = list_chosen(read_choice(store_root()), options.nproc, visible_devices())
    return options.model_copy(update={"gpus": listed})


def _split_secrets(options: RunOptions) -> tuple[RunOptions, dict[str, str]]:
    """The options as they may be written down, and the secrets in `--env`, which only travel in the environment."""
    secrets = {name: value for name, value in options.env.items() if is_secret(name)}
    open_ = {name: value for name, value in options.env.items() if name not in secrets}
    return options.model_copy(update={"env": open_}), secrets


@functools.cache
def _package_versions() -> dict[str, str]:
    versions = {}
    for name in _RECORDED_PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _check_devices(options: RunOptions) -> Want:
    """What the run will wait for; raises for what this machine can never give."""
    want = ask(options.gpus, options.nproc, visible_devices(), cpu_slots())
    if want.kind == "cpu" and options.precision == "fp16":
        raise OptionError("--precision fp16 needs a GPU and this run will use the CPU; bf16 works on both")
    return want


def _check_outputs(code: Source, outputs: Collection[str], captured: Mapping[str, object]) -> None:
    """Raises OptionError for a name in `-o` that can't be there when the code ends: better now than after hours."""
    if code.kind == "function" or _MAKES_ANY_NAME.search(code.text):
        return
    names = {*re.findall(r"\w+", code.text), *captured}
    for value in captured.values():
        if type(value) is types.FunctionType:  # it may write globals
            names.update(value.__code__.co_names)
    for name in outputs:
        if name not in names:
            guess = nearest(name, sorted(names))
            hint = f"; did you mean {guess!r}?" if guess else "; assign it there, or leave it out"
            raise OptionError(f"-o {name}: the {code.kind} neither assigns nor uses a variable of that name{hint}")


def _workdir() -> str:
    try:
        folder = os.getcwd()
    except FileNotFoundError as error:
        raise LaunchError("the working folder was removed; change to another one: %cd, or os.chdir") from error
    if not _is_text(folder):
        raise LaunchError(f"the working folder's name is no UTF-8 text: {os.fsencode(folder)!r}; rename it")
    return folder


def _is_text(path: str) -> bool:
    """Whether a path can be written down: names of files may be any bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_platform() -> None:
    if sys.platform == "win32":
        raise LaunchError("jtrain does not run on Windows itself: use it inside WSL (Windows Subsystem for Linux)")
