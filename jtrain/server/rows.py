"""Runs as the browser is told of them."""

from __future__ import annotations

from typing import Any

from jtrain.domain.messages import CheckpointRow, EventRow, ProgressRow, RunAnswer, RunRow
from jtrain.domain.states import ALIVE, RESUMABLE, State
from jtrain.run import Run
from jtrain.server.curves import RunCurves, read_starts, to_value
from jtrain.store.checkpoints import damaged_checkpoints
from jtrain.store.index import RunSummary
from jtrain.store.progress import Progress
from jtrain.verbs.looking import options_line

_MOST_EVENTS = 1000


def run_row(summary: RunSummary, progress: Progress | None) -> RunRow:
    """A run in the list."""
    is_alive = summary.state in ALIVE and not summary.is_interrupted
    return {
        "id": summary.id,
        "name": summary.name,
        "state": summary.shown_state,
        "reason": summary.reason,
        "created": summary.created,
        "ended": summary.ended,
        "attempt": summary.attempt,
        "tags": dict(summary.tags),
        "notebook": summary.notebook,
        "priority": summary.priority,
        "devices": list(summary.devices),
        "progress": progress_row(progress) if progress is not None and is_alive else None,
        "can_pause": is_alive and summary.state is not State.PAUSING,
        "can_resume": summary.is_interrupted or summary.state in RESUMABLE,
        "can_stop": is_alive or summary.is_interrupted or summary.state is State.PAUSED,
    }


def progress_row(progress: Progress) -> ProgressRow:
    """How far a run is."""
    return {
        "step": progress.step,
        "total_steps": progress.total_steps,
        "epoch": progress.epoch,
        "epochs": progress.epochs,
        "fraction": progress.fraction,
        "samples_per_s": progress.samples_per_s,
        "steps_per_s": progress.steps_per_s,
        "eta_s": progress.eta_s,
        "loss": None if progress.loss is None else to_value(progress.loss),
    }


def run_answer(run: Run) -> RunAnswer:
    """Everything about one run but its series and logs. Raises RunNotFoundError or StoreError."""
    spec, events = run.spec, run.events()
    summary = run.store.summarise(run.id)
    error = run.error
    record = spec.model_dump(mode="json")
    source = record.pop("source")
    return {
        "run": run_row(summary, run.progress),
        "metrics": RunCurves(run.paths, read_starts(events)).names(),
        "num_ranks": _num_ranks(run, len(summary.devices)),
        "num_attempts": summary.attempt,
        "events": [
            EventRow(number=event.number, time=event.time, kind=event.kind, reason=event.reason)
            for event in events[-_MOST_EVENTS:]
        ],
        "checkpoints": checkpoint_rows(run),
        "notices": [str(notice.get("text", "")) for notice in run.notices()],
        "source": str(source["text"]),
        "source_name": str(source["filename"]),
        "options": options_line(run),
        "error": str(error) if error is not None else "",
        "spec": {"options": record["options"], "config": record["config"], "source": source["kind"]},
        "provenance": _provenance(record),
        "folder": str(run.paths.root),
    }


def _num_ranks(run: Run, least: int) -> int:
    """How many ranks have a log in any attempt: one that was resumed on fewer devices had more of them before."""
    numbers = [attempt.logged_ranks() for attempt in run.attempts]
    return max([least, *(rank + 1 for ranks in numbers for rank in ranks)])


def checkpoint_rows(run: Run) -> list[CheckpointRow]:
    """The checkpoints, oldest first; damaged ones at the end."""
    rows: list[CheckpointRow] = [
        {
            "name": info.name,
            "step": info.step,
            "time": info.time,
            "size_bytes": info.size_bytes,
            "world_size": info.world_size,
            "is_sound": True,
            "problem": "",
        }
        for info in run.checkpoints()
    ]
    for name in damaged_checkpoints(run.paths):
        rows.append(
            {
                "name": name,
                "step": 0,
                "time": 0.0,
                "size_bytes": None,
                "world_size": None,
                "is_sound": False,
                "problem": "its manifest is missing or damaged",
            }
        )
    return rows


def _provenance(record: dict[str, Any]) -> dict[str, Any]:
    names = ("created", "seed", "user", "host", "python", "packages", "workdir", "notebook", "resumed_from")
    return {name: record[name] for name in (*names, "captured", "payload_digest")}
