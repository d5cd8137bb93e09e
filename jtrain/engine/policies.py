"""Pure: what to do after an attempt ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jtrain.engine.exits import Exit

_FIRST_DELAY_S = 1.0
_LONGEST_DELAY_S = 30.0


@dataclass(frozen=True)
class Next:
    """`restart` after `delay_s` seconds, or `end` in the state that the exit says."""

    action: Literal["restart", "end"]
    reason: str
    delay_s: float = 0.0


def after_attempt(history: Sequence[Exit], max_restarts: int) -> Next:
    """What follows the last of `history` (the exits of this supervisor's attempts, oldest first).

    A failure is retried up to `max_restarts` times, each time twice as long after the last (1 s to 30 s), but not when
    it came at the same step with the same cause as the one before: that would only repeat it for ever.
    """
    last = history[-1]
    if not last.is_failure:
        return Next("end", last.sentence)
    failures = len(history)
    if failures > max_restarts:
        return Next("end", last.sentence)
    if failures > 1 and _is_same(history[-2], last):
        return Next("end", f"{last.sentence} (the same failure at the same step as before, so it is not tried again)")
    delay_s = min(_FIRST_DELAY_S * 2 ** (failures - 1), _LONGEST_DELAY_S)
    return Next("restart", f"{last.sentence}; restart {failures} of {max_restarts} in {delay_s:g} s", delay_s)


def _is_same(before: Exit, last: Exit) -> bool:
    return last.step is not None and (before.step, before.cause, before.rank) == (last.step, last.cause, last.rank)
