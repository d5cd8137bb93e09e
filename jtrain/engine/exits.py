"""Pure: from exit codes and error files to one cause, one sentence, and what to do next."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from jtrain.domain.worker import EXIT_PAUSED

Cause = Literal["finished", "paused", "stopped", "exception", "exit", "signal", "memory"]

_SECONDARY = re.compile(
    r"connection (closed|reset|refused)|broken pipe|peer|timed? ?out|gloo|nccl|process group|socket|rendezvous|store",
    re.IGNORECASE,
)
"""What a rank's error says when it only lost another rank in a collective operation."""
_GO_ON = "`%jtrain resume` goes on from the last checkpoint, or from the start when there is none"
_LONGEST_MESSAGE = 300
"""Characters of an error's message in the sentence about it."""


@dataclass(frozen=True)
class Exit:
    """How an attempt ended. `rank` is the one that failed first; `others` a sentence for each further one."""

    cause: Cause
    sentence: str
    next_step: str = ""
    rank: int | None = None
    code: int | None = None
    step: int | None = None
    error: Mapping[str, Any] | None = None
    others: tuple[str, ...] = field(default=())

    @property
    def is_failure(self) -> bool:
        return self.cause not in ("finished", "paused", "stopped")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class _Ending:
    """One rank's end: exit code, when, whether the supervisor ended it, whether it came before the end of the program
    though the code is 0, and its error file's content."""

    rank: int
    code: int
    time: float
    was_ended_by_us: bool
    is_early: bool
    error: Mapping[str, Any] | None

    @property
    def is_secondary(self) -> bool:
        """Whether this rank most likely failed only because another one had."""
        if self.was_ended_by_us and self.error is None:
            return True
        if self.error is None:
            return False
        is_runtime = self.error.get("type") in (
            "RuntimeError",
            "DistBackendError",
            "DistNetworkError",
            "DistStoreError",
        )
        return is_runtime and bool(_SECONDARY.search(str(self.error.get("message", ""))))

    @property
    def when(self) -> float:
        return float(self.error["time"]) if self.error and "time" in self.error else self.time


def explain(
    exits: Sequence[Any],
    errors: Mapping[int, Mapping[str, Any]],
    *,
    was_stopped: bool = False,
    was_told_to_pause: bool = True,
    oom_kills: int = 0,
) -> Exit:
    """One `Exit` for all ranks.

    `exits` are objects with `rank`, `code` (negative: signal), `time`, `was_ended_by_us` and `is_early` (a 0 before the
    end of the program); `errors` the content of the ranks' error files; `oom_kills` how many processes the kernel's
    memory killer took in this run's control group.
    """
    if was_stopped:
        return Exit("stopped", "stopped as asked")
    endings = [_Ending(e.rank, e.code, e.time, e.was_ended_by_us, e.is_early, errors.get(e.rank)) for e in exits]
    # A program may use the exit code of a pause for something of its own.
    good = (0, EXIT_PAUSED) if was_told_to_pause else (0,)
    bad = [ending for ending in endings if ending.code not in good or ending.is_early]
    if not bad:
        if any(ending.code == EXIT_PAUSED for ending in endings):
            return Exit("paused", "paused with a checkpoint")
        return Exit("finished", "finished")
    first = min(bad, key=lambda ending: (ending.is_secondary, ending.when, ending.rank))
    others = tuple(_other(ending) for ending in sorted(bad, key=lambda e: e.rank) if ending is not first)
    well = [ending.rank for ending in endings if ending.code == 0 and not ending.is_early]
    return _describe(first, others, oom_kills, _early_hint(well) if first.is_secondary and well else "")


def _other(ending: _Ending) -> str:
    if ending.was_ended_by_us and ending.error is None:
        return f"rank {ending.rank} was ended because of that"
    if ending.error is not None:
        kind = "then failed too" if ending.is_secondary else "failed as well"
        return f"rank {ending.rank} {kind} ({ending.error.get('type')})"
    return f"rank {ending.rank} ended too ({_ended_how(ending.code)})"


def _ended_how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code}, {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _describe(first: _Ending, others: tuple[str, ...], oom_kills: int, hint: str) -> Exit:
    rank, code, error = first.rank, first.code, first.error
    step = error.get("step") if error else None
    if error is not None and error.get("exit_code") is not None:
        sentence = f"rank {rank} ended itself with exit code {error['exit_code']} ({error.get('type')})"
        return Exit(
            "exit",
            sentence,
            "let the cell run to its end, or handle the case that makes it exit",
            rank,
            code,
            step,
            error,
            others,
        )
    if error is not None:
        sentence = f"rank {rank}: {error.get('type')}{_in_a_line(error.get('message'))}"
        return Exit("exception", sentence, hint, rank, code, step, error, others)
    if code == -signal.SIGKILL and oom_kills:
        sentence = f"rank {rank} was killed because the machine (or its container) ran out of memory"
        return Exit(
            "memory",
            sentence,
            "use a smaller batch, fewer DataLoader workers, or fewer ranks",
            rank,
            code,
            step,
            None,
            others,
        )
    if code < 0:
        sentence = f"rank {rank} was killed by {_ended_how(code)}"
        return Exit("signal", sentence, _signal_hint(-code), rank, code, step, None, others)
    sentence = f"rank {rank}'s process ended with exit code {code} and without an exception (os._exit, or a library)"
    return Exit("exit", sentence, f"its last output: `%jtrain logs --rank {rank}`", rank, code, step, None, others)


def _in_a_line(message: object) -> str:
    """What follows the type of an error: the beginning of its message; the whole is in the error's record."""
    line = next((line.strip() for line in str(message or "").splitlines() if line.strip()), "")
    if len(line) > _LONGEST_MESSAGE:
        line = f"{line[:_LONGEST_MESSAGE]} …"
    return f": {line}" if line else ""


def _early_hint(ranks: Sequence[int]) -> str:
    """For a rank that was left alone by `ranks`, which came to their end."""
    who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
    return (
        f"{who} came to the end of the program before it; "
        "let all ranks do equally many steps, gathers and wait_for_everyone"
    )


def _signal_hint(number: int) -> str:
    if number == signal.SIGKILL:
        return f"somebody killed it, or memory ran out (the system log tells); {_GO_ON}"
    if number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT, signal.SIGFPE):
        return "a compiled library crashed; the end of its log says where"
    return _GO_ON
