"""Verbs that do something: attach, pause, resume, stop, clean."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from jtrain.domain.devices import format_bytes
from jtrain.domain.states import ALIVE, State
from jtrain.domain.wording import format_time, table
from jtrain.errors import OptionError, StoreError
from jtrain.optiontable import Option
from jtrain.resuming import resume_from
from jtrain.run import Run
from jtrain.store.index import RunSummary
from jtrain.store.runs import RunStore
from jtrain.verbs.answers import Answer, OneRun, Question, Shown, SomeRuns, Watched, find_run, find_runs

_DONE = frozenset({State.FINISHED, State.FAILED, State.STOPPED})


def attach(arguments: OneRun) -> Watched:
    """Show a run live, wherever it was started, and take over its results; interrupting that pauses the run."""
    run = find_run(arguments.run)
    return Watched(run, max(run.paths.attempt_numbers(), default=1) - 1)


class PauseArguments(SomeRuns):
    """Which runs, and whether to wait for them."""

    no_wait: Annotated[bool, Option("only ask; don't wait until it is done")] = False


def pause(arguments: PauseArguments) -> Shown:
    """Write a checkpoint at the next batch and end; resume goes on."""
    return _end(arguments, "pause")


def stop(arguments: PauseArguments) -> Shown:
    """End a run at once, without a checkpoint."""
    return _end(arguments, "stop")


def _end(arguments: PauseArguments, wish: str) -> Shown:
    runs = find_runs(arguments.runs)
    lines = []
    for run in runs:
        if run.is_at_rest and not (wish == "stop" and (run.state is State.PAUSED or run.state in ALIVE)):
            lines.append(f"run {run.id} is {run.shown_state} already")
            continue
        (run.pause if wish == "pause" else run.stop)()
        lines.append(f"run {run.id} was asked to {wish}" if arguments.no_wait else "")
    if not arguments.no_wait:
        lines = [line or _wait(run) for line, run in zip(lines, runs, strict=True)]
    return Shown("\n".join(lines))


def _wait(run: Run) -> str:
    run.wait()
    return f"run {run.id} is {run.shown_state}" + (f" at step {run.progress.step}" if run.progress.step else "")


class ResumeArguments(OneRun):
    """Which run, from where, and whether to wait for it."""

    checkpoint: Annotated[
        str, Option("the checkpoint to go on from; another than the newest begins a new run", "NAME", "step-100")
    ] = ""
    gpus: Annotated[str, Option("other GPUs than before, as for a launch", "auto|all|N|0,2|free|picker|none", "1")] = ""
    nproc: Annotated[
        int | None, Field(ge=1), Option("another number of processes (ranks); the steps stay the same", "N", "2")
    ] = None
    background: Annotated[bool, Option("return at once instead of showing it")] = False


def resume(arguments: ResumeArguments) -> Answer:
    """Go on from the last good checkpoint (from the start when there is none)."""
    run = find_run(arguments.run)
    gpus, nproc = arguments.gpus or None, arguments.nproc
    seen = max(run.paths.attempt_numbers(), default=0)
    if arguments.checkpoint:
        resumed = resume_from(run, arguments.checkpoint, gpus=gpus, nproc=nproc)
        where = f"from {run.id}/{arguments.checkpoint}"
    else:
        found = run.checkpoints()
        resumed = run.resume(gpus=gpus, nproc=nproc)
        where = f"from step {found[-1].step}" if found else "from the start: it has no checkpoint"
    if arguments.background:
        return Shown(f"run {resumed.id} goes on {where}; `%jtrain attach {resumed.id}` shows it")
    return Watched(resumed, seen if resumed.id == run.id else 0)


_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*(min|h|d|w)")
_SECONDS = {"min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def _age(value: Any) -> Any:
    if not isinstance(value, str) or (value and not _AGE.fullmatch(value.strip())):
        raise ValueError("it is an age such as 12h, 30d or 8w")
    return value.strip()


class CleanArguments(SomeRuns):
    """Which runs to delete."""

    runs: Annotated[
        tuple[str, ...], Option("ids or names of runs to delete", "RUN", completes="run", positional=True)
    ] = ()
    older_than: Annotated[
        str, BeforeValidator(_age), Option("all finished, failed and stopped runs older than this", "AGE", "30d")
    ] = ""
    dry_run: Annotated[bool, Option("only say what would be deleted")] = False
    yes: Annotated[bool, Option("don't ask")] = False


def clean(arguments: CleanArguments) -> Answer:
    """Delete runs with all their files; never one that is alive, and a paused one only when it is named."""
    store = RunStore()
    if not arguments.runs and not arguments.older_than:
        raise OptionError("clean: say which runs, by id or with --older-than 30d (--dry-run shows what would go)")
    doomed = _named(arguments.runs, store) + _old(arguments.older_than, store)
    if not doomed:
        return Shown("there is nothing to delete")
    sizes = [folder_bytes(store.paths.run(summary.id).root) for summary in doomed]
    rows = [("run", "state", "started", "size"), *(_clean_row(*pair) for pair in zip(doomed, sizes, strict=True))]
    total = f"{len(doomed)} run{'s' if len(doomed) > 1 else ''}, {format_bytes(sum(sizes))}"
    if arguments.dry_run:
        return Shown(f"{table(rows, right='3')}\nwould be deleted: {total}")
    ids = [summary.id for summary in doomed]
    if arguments.yes:
        return _delete(ids, store)
    return Question(f"{table(rows, right='3')}\nDelete {total}, for ever?", lambda: _delete(ids, store))


def _named(words: Sequence[str], store: RunStore) -> list[RunSummary]:
    found = [store.summarise(find_run(word, store).id) for word in dict.fromkeys(words)]
    for summary in found:
        if summary.state in ALIVE and not summary.is_interrupted:
            raise StoreError(f"run {summary.id} is {summary.state}; `%jtrain stop {summary.id}` ends it")
    return found


def _old(older_than: str, store: RunStore) -> list[RunSummary]:
    match = _AGE.fullmatch(older_than)
    if match is None:
        return []
    limit = time.time() - float(match[1]) * _SECONDS[match[2]]
    return [
        summary for summary in store.list() if summary.state in _DONE and (summary.ended or summary.created) < limit
    ]


def _clean_row(summary: RunSummary, size: int) -> tuple[str, str, str, str]:
    return summary.id, summary.shown_state, format_time(summary.created), format_bytes(size)


def _delete(run_ids: Sequence[str], store: RunStore) -> Shown:
    for run_id in run_ids:
        store.remove(run_id)
    return Shown(f"deleted: {', '.join(run_ids)}")


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below `folder`; a file that vanishes meanwhile counts nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:
            continue
    return total
