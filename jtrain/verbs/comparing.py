"""Verbs that draw and compare: plot, compare."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator

from jtrain.domain.wording import clip, format_duration, format_number, table
from jtrain.errors import OptionError
from jtrain.optiontable import Option
from jtrain.plots import compare_runs, plot_run
from jtrain.run import Run
from jtrain.verbs.answers import Shown, SomeRuns, find_runs
from jtrain.verbs.looking import option_text

_MOST_DIFF_LINES = 200


def _metric_names(value: Any) -> Any:
    texts = [value] if isinstance(value, str) else value
    return tuple(name.strip() for text in texts for name in str(text).split(",") if name.strip())


class PlotArguments(SomeRuns):
    """What to draw."""

    metrics: Annotated[
        tuple[str, ...],
        BeforeValidator(_metric_names),
        Option("metrics to draw; else all", "NAMES", "loss,val/acc", short="-m"),
    ] = ()
    file: Annotated[str, Option("write the picture to this file", "FILE", "loss.png", completes="file")] = ""


def plot(arguments: PlotArguments) -> Shown:
    """Draw a run's metrics; of several runs the curves lie on top of each other."""
    runs = find_runs(arguments.runs)
    metrics = arguments.metrics or None
    file = arguments.file or f"{runs[0].id}.png"
    if len(runs) == 1:
        return Shown("", lambda: plot_run(runs[0], metrics), file)
    return Shown("", lambda: compare_runs(runs, metrics), file)


class CompareArguments(SomeRuns):
    """Which runs to compare."""

    runs: Annotated[
        tuple[str, ...], Option("two or more ids or names of runs", "RUN", completes="run", positional=True)
    ] = ()


def compare(arguments: CompareArguments) -> Shown:
    """What differs between runs: options, code, results."""
    if len(arguments.runs) < 2:
        raise OptionError("compare: name two runs or more; `%jtrain runs` lists them")
    runs = find_runs(arguments.runs)
    parts = [_section("results", _results(runs)), _section("options that differ", _options(runs))]
    parts += [_source(runs[0], other) for other in runs[1:]]
    shared = set.intersection(*(set(run.metrics.columns) for run in runs))
    return Shown("\n\n".join(parts), (lambda: compare_runs(runs)) if shared else None)


def _section(title: str, rows: Sequence[Sequence[str]]) -> str:
    return f"{title}\n{table(rows)}" if len(rows) > 1 else f"{title}: none"


def _results(runs: Sequence[Run]) -> list[list[str]]:
    names = list(dict.fromkeys(name for run in runs for name in run.metrics.columns))
    rows = [["", *(run.id for run in runs)], ["state", *(run.shown_state for run in runs)]]
    rows.append(["step", *(str(run.progress.step) for run in runs)])
    rows.append(["took", *(_took(run) for run in runs)])
    for name in names:
        rows.append([clip(name, 40), *(_last(run, name) for run in runs)])
    return rows


def _took(run: Run) -> str:
    standing = run.standing
    if standing.started is None or standing.ended is None:
        return "n/a"
    return format_duration(standing.ended - standing.started)


def _last(run: Run, name: str) -> str:
    return format_number(run.metrics.last(name)) if name in run.metrics else ""


def _options(runs: Sequence[Run]) -> list[list[str]]:
    facts = [_facts(run) for run in runs]
    rows = [["", *(run.id for run in runs)]]
    for name in dict.fromkeys(name for fact in facts for name in fact):
        values = [fact.get(name, "") for fact in facts]
        if len(set(values)) > 1:
            rows.append([name, *(clip(value, 60) for value in values)])
    return rows


def _facts(run: Run) -> dict[str, str]:
    """Everything that was decided before the run, as text."""
    spec = run.spec
    facts = {name: option_text(value) for name, value in spec.options.model_dump().items() if value is not None}
    facts |= {"seed": str(spec.seed), "devices": ", ".join(run.standing.devices), "host": spec.host}
    facts |= {"python": spec.python, "captured": ", ".join(spec.captured), "captured data": spec.payload_digest}
    return facts | dict(spec.packages)


def _source(first: Run, other: Run) -> str:
    """How the code of `other` differs."""
    before, after = (run.spec.source.text.splitlines() for run in (first, other))
    diff = list(difflib.unified_diff(before, after, first.id, other.id, lineterm="", n=2))
    if not diff:
        return f"code: the same in {first.id} and {other.id}"
    more = [f"… {len(diff) - _MOST_DIFF_LINES} more lines"] if len(diff) > _MOST_DIFF_LINES else []
    return "\n".join(["code that differs", *diff[:_MOST_DIFF_LINES], *more])
