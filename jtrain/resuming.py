"""`--resume` and `resume --checkpoint`: which run and checkpoint a run goes on from."""

from __future__ import annotations

import difflib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jtrain.devices.choose import ask, is_picker, list_chosen
from jtrain.devices.sampler import cpu_slots, visible_devices
from jtrain.domain.spec import RunSpec, Source
from jtrain.domain.states import ALIVE, State
from jtrain.engine.zygote import start
from jtrain.errors import CheckpointError, StoreError, nearest
from jtrain.options import RunOptions, make_options
from jtrain.run import Run
from jtrain.store.checkpoints import CheckpointInfo, damaged_checkpoints, list_checkpoints
from jtrain.store.choice import read_choice
from jtrain.store.paths import RunPaths, store_root
from jtrain.store.runs import RunStore

_ALIKE = 0.6
"""How much of a cell's text must be unchanged for `auto` to take it for the same cell (difflib ratio)."""
_LOOK_BACK = 200


@dataclass(frozen=True)
class Origin:
    """The checkpoint that a new run starts from, and the seed its data order needs."""

    run_id: str
    checkpoint: str
    folder: Path
    seed: int


def find_origin(store: RunStore, options: RunOptions, code: Source, *, workdir: str) -> Origin | None:
    """The origin that `--resume` names, or None for a fresh start.

    `auto`: the newest unfinished run of the same name, or of nearly the same code in the same folder, that has a
    checkpoint.
    `RUN` or `RUN/CHECKPOINT`: that one. Raises CheckpointError (naming the nearest) or RunNotFoundError.
    """
    if not options.resume:
        return None
    if options.resume == "auto":
        return _find_automatically(store, options, code, workdir)
    run_id, _, name = options.resume.strip("/").partition("/")
    paths = store.find(run_id)
    found = list_checkpoints(paths)
    if not found:
        raise CheckpointError(f"run {run_id} has no checkpoint to go on from{_why_none(paths)}")
    return _origin(store, run_id, _choose(run_id, name, found))


def _why_none(paths: RunPaths) -> str:
    if damaged := damaged_checkpoints(paths):
        return f": the manifest of {', '.join(damaged)} is missing or damaged ({paths.checkpoints})"
    return "; use --checkpoint-every when it is started"


def _choose(run_id: str, name: str, found: list[CheckpointInfo]) -> CheckpointInfo:
    if not name:
        return found[-1]
    for checkpoint in found:
        if checkpoint.name == name:
            return checkpoint
    names = [checkpoint.name for checkpoint in found]
    hint = nearest(name, names)
    raise CheckpointError(
        f"run {run_id} has no checkpoint {name!r}; it has {', '.join(names)}"
        + (f"; did you mean {hint}?" if hint else "")
    )


def _find_automatically(store: RunStore, options: RunOptions, code: Source, workdir: str) -> Origin | None:
    for summary in store.list(limit=_LOOK_BACK):
        is_over = summary.state is State.FINISHED or (summary.state in ALIVE and not summary.is_interrupted)
        if is_over:
            continue
        try:
            spec = store.read_spec(summary.id)
        except StoreError:
            continue  # a damaged run can't be gone on from
        if _is_same_work(spec, options, code, workdir) and (found := list_checkpoints(store.find(summary.id))):
            return _origin(store, summary.id, found[-1])
    return None


def _is_same_work(spec: RunSpec, options: RunOptions, code: Source, workdir: str) -> bool:
    if options.name:
        return spec.name == options.name
    if spec.source.kind != code.kind or spec.workdir != workdir:
        return False
    return difflib.SequenceMatcher(None, spec.source.text, code.text, autojunk=False).ratio() >= _ALIKE


def _origin(store: RunStore, run_id: str, checkpoint: CheckpointInfo) -> Origin:
    return Origin(run_id, checkpoint.name, checkpoint.folder, store.read_spec(run_id).seed)


def link_checkpoint(origin: Origin, paths: RunPaths) -> None:
    """Give a new run its own copy of the checkpoint: hard links where the file system has them, so it costs nothing and
    outlives the old run. Checkpoints are never written to again."""
    _link_folder(origin.folder, paths.checkpoints / origin.checkpoint)


def _link_folder(source: Path, target: Path) -> None:
    try:
        shutil.copytree(source, target, copy_function=os.link)
    except (OSError, shutil.Error):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)


def other_devices(run: Run, gpus: object, nproc: int | None) -> dict[str, Any] | None:
    """The options `gpus` and `nproc` of a run that goes on with other devices than it had; None when none are given.

    Raises OptionError for values that mean nothing, DeviceError for what this machine hasn't got.
    """
    if gpus is None and nproc is None:
        return None
    standing, old = run.standing, run.spec.options
    if gpus is None:
        gpus = old.gpus if standing.gpus is None else standing.gpus
    options = make_options(gpus=gpus, nproc=nproc)
    visible = visible_devices()
    if is_picker(options.gpus):
        options = options.model_copy(update={"gpus": list_chosen(read_choice(store_root()), nproc, visible)})
    ask(options.gpus, options.nproc, visible, cpu_slots())
    return {"gpus": options.gpus, "nproc": options.nproc}


def resume_from(run: Run, checkpoint: str, *, gpus: object = None, nproc: int | None = None) -> Run:
    """Go on from `checkpoint` of `run`: in the run itself when it rests and that is its newest one, else in a new run
    with the same code and options, so that what the run has done since is kept. `gpus`, `nproc` as in `Run.resume`.

    Raises CheckpointError naming the nearest one, LaunchError or StoreError when the new run can't be made.
    """
    found = list_checkpoints(run.paths)
    if not found:
        raise CheckpointError(f"run {run.id} has no checkpoint to go on from{_why_none(run.paths)}")
    chosen = _choose(run.id, checkpoint, found)
    if chosen == found[-1] and run.state is not State.FINISHED:
        return run.resume(gpus=gpus, nproc=nproc)
    return _branch(run, _origin(run.store, run.id, chosen), other_devices(run, gpus, nproc) or {})


def _branch(run: Run, origin: Origin, devices: Mapping[str, Any]) -> Run:
    """A new run from a checkpoint of `run`."""
    store, old = run.store, run.spec
    run_id = store.new_id()
    source = f"{origin.run_id}/{origin.checkpoint}"
    spec = old.model_copy(
        update={
            "id": run_id,
            "name": run_id if old.name == old.id else old.name,
            "created": time.time(),
            "resumed_from": source,
            "options": old.options.model_copy(update={"resume": source, **devices}),
        }
    )
    with store.create(run_id) as paths:
        if run.paths.payload.exists():
            _link_folder(run.paths.payload, paths.payload)
        store.write_spec(paths, spec)
        link_checkpoint(origin, paths)
    start(store.find(run_id).root)
    return Run(run_id, store)
