"""What a verb answers with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict

from jtrain.errors import RunNotFoundError, nearest
from jtrain.optiontable import Option
from jtrain.run import Run
from jtrain.store.paths import RUN_ID
from jtrain.store.runs import RunStore

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Shown:
    """Text to show; `figure` makes a picture to show below it; `file` is where the user wants the picture."""

    text: str
    figure: Callable[[], Figure] | None = None
    file: str = ""


@dataclass(frozen=True)
class Watched:
    """A run to show live until it rests; the output of its first `seen_attempts` attempts is left out."""

    run: Run
    seen_attempts: int = 0


@dataclass(frozen=True)
class Question:
    """Something to ask before it is done."""

    text: str
    do: Callable[[], Shown]


Answer = Shown | Watched | Question


class Arguments(BaseModel):
    """Base of all verbs' arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class OneRun(Arguments):
    """A run; the newest one when it isn't named."""

    run: Annotated[
        str,
        Option(
            "the run's id, the beginning of it, or its name; else the newest run",
            "RUN",
            completes="run",
            positional=True,
        ),
    ] = ""


class SomeRuns(Arguments):
    """Any number of runs; the newest one when none is named."""

    runs: Annotated[
        tuple[str, ...], Option("ids or names of runs; else the newest run", "RUN", completes="run", positional=True)
    ] = ()


def find_run(word: str, store: RunStore | None = None) -> Run:
    """The run that `word` means: an id, a name (the newest run of it), the beginning of one id, or "" (the newest).

    Raises RunNotFoundError, naming the nearest.
    """
    store = store or RunStore()
    if RUN_ID.fullmatch(word) and store.paths.run(word).spec.is_file():
        return Run(word, store)
    summaries = store.list(limit=1 if not word else None)
    if not summaries:
        raise RunNotFoundError(f"there are no runs in {store.paths.root} yet")
    if not word:
        return Run(summaries[0].id, store)
    named = [summary.id for summary in summaries if summary.name == word]
    begun = [summary.id for summary in summaries if summary.id.startswith(word)]
    if named or len(begun) == 1:
        return Run((named or begun)[0], store)
    if begun:
        raise RunNotFoundError(f"several runs begin with {word!r}: {', '.join(begun[:5])}{', …' if begun[5:] else ''}")
    close = nearest(word, [*(summary.id for summary in summaries), *(s.name for s in summaries if s.name)])
    hint = f"did you mean {close}?" if close else "`%jtrain runs` lists all"
    raise RunNotFoundError(f"there is no run {word!r} in {store.paths.root}; {hint}")


def find_runs(words: tuple[str, ...], store: RunStore | None = None) -> list[Run]:
    """The same for several; the newest run when there are no words."""
    store = store or RunStore()
    return [find_run(word, store) for word in words or ("",)]
