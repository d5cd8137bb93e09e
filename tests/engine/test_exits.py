"""From exit codes and error files to one cause and one sentence."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from jtrain.domain.worker import EXIT_PAUSED
from jtrain.engine.attempt import RankExit
from jtrain.engine.exits import Exit, explain
from jtrain.engine.policies import after_attempt


def _ended(rank: int, code: int, *, time: float = 0.0, by_us: bool = False, early: bool = False) -> RankExit:
    return RankExit(rank, code, time, by_us, early)


def _error(kind: str, message: str, time: float, **more: Any) -> dict[str, Any]:
    return {"type": kind, "message": message, "time": time, "step": 3, **more}


def test_all_zero_is_finished_and_a_pause_is_a_pause() -> None:
    assert explain([_ended(0, 0), _ended(1, 0)], {}).cause == "finished"
    assert explain([_ended(0, EXIT_PAUSED), _ended(1, EXIT_PAUSED)], {}).cause == "paused"


def test_a_pauses_exit_code_without_a_pause_is_a_failure() -> None:
    exit_ = explain([_ended(0, EXIT_PAUSED), _ended(1, 0)], {}, was_told_to_pause=False)
    assert (exit_.cause, exit_.rank, str(EXIT_PAUSED) in exit_.sentence) == ("exit", 0, True)


def test_an_exit_code_of_zero_before_the_programs_end_is_a_failure() -> None:
    exit_ = explain([_ended(0, -9, by_us=True), _ended(1, 0, early=True)], {})
    assert (exit_.cause, exit_.rank, "exit code 0" in exit_.sentence) == ("exit", 1, True)


def test_the_rank_that_raised_is_named_not_the_one_that_lost_it_in_a_collective() -> None:
    errors = {
        0: _error("RuntimeError", "[gloo] Connection closed by peer [127.0.0.1]:1234", 5.0),
        1: _error("ValueError", "bad label", 5.2),
    }
    exit_ = explain([_ended(0, 1, time=6), _ended(1, 1, time=6)], errors)
    assert (exit_.rank, exit_.cause, exit_.sentence) == (1, "exception", "rank 1: ValueError: bad label")
    assert exit_.others == ("rank 0 then failed too (RuntimeError)",)


def test_a_killed_rank_comes_before_the_error_it_causes_elsewhere() -> None:
    errors = {0: _error("RuntimeError", "Connection reset by peer", 1.0)}
    exit_ = explain([_ended(1, -signal.SIGKILL, time=2.0), _ended(0, 1, time=2.0)], errors)
    assert (exit_.rank, exit_.cause) == (1, "signal")
    assert "SIGKILL" in exit_.sentence


def test_a_users_own_runtime_error_is_not_taken_for_a_lost_peer() -> None:
    errors = {0: _error("RuntimeError", "shape mismatch at layer 3", 1.0)}
    assert explain([_ended(0, 1), _ended(1, -9, by_us=True)], errors).rank == 0


@pytest.mark.parametrize(
    ("code", "kills", "cause", "word"),
    [
        (-9, 1, "memory", "memory"),
        (-11, 0, "signal", "SIGSEGV"),
        (3, 0, "exit", "exit code 3"),
        (-200, 0, "signal", "200"),
    ],
)
def test_deaths_without_an_exception_are_named_as_what_they_are(code: int, kills: int, cause: str, word: str) -> None:
    exit_ = explain([_ended(0, code)], {}, oom_kills=kills)
    assert exit_.cause == cause
    assert word in exit_.sentence


def test_sys_exit_is_named_with_its_code() -> None:
    exit_ = explain([_ended(0, 3)], {0: _error("SystemExit", "3", 1.0, exit_code=3)})
    assert exit_.cause == "exit"
    assert "exit code 3" in exit_.sentence


def test_a_rank_that_the_others_left_alone_is_told_who_did() -> None:
    errors = {0: _error("RuntimeError", "[gloo] Connection closed by peer [127.0.0.1]:1234", 5.0)}
    exit_ = explain([_ended(0, 1), _ended(1, 0)], errors)
    assert "rank 1 came to the end of the program before it" in exit_.next_step


@pytest.mark.parametrize(("message", "end"), [("", "ValueError"), ("\n a\nb", "ValueError: a"), ("x" * 999, "x …")])
def test_the_sentence_about_an_error_is_one_short_line(message: str, end: str) -> None:
    sentence = explain([_ended(0, 1)], {0: _error("ValueError", message, 1.0)}).sentence
    assert sentence.endswith(end)
    assert len(sentence) < 400


def test_a_stop_is_no_failure_whatever_the_codes() -> None:
    assert explain([_ended(0, -15, by_us=True), _ended(1, 1)], {}, was_stopped=True).cause == "stopped"


def _failure(step: int | None) -> Exit:
    return Exit("exception", "rank 0: ValueError: x", rank=0, step=step)


def test_failures_restart_with_growing_delays_up_to_the_limit() -> None:
    history = [_failure(1)]
    assert (after_attempt(history, 2).action, after_attempt(history, 2).delay_s) == ("restart", 1.0)
    history.append(_failure(2))
    assert after_attempt(history, 2).delay_s == 2.0
    history.append(_failure(3))
    assert after_attempt(history, 2).action == "end"


def test_the_same_failure_at_the_same_step_is_not_tried_for_ever() -> None:
    following = after_attempt([_failure(7), _failure(7)], 10)
    assert following.action == "end"
    assert "same step" in following.reason


@pytest.mark.parametrize("cause", ["finished", "paused", "stopped"])
def test_an_end_that_is_no_failure_is_not_restarted(cause: Any) -> None:
    assert after_attempt([Exit(cause, "")], 5).action == "end"
