"""Monitor without a browser: what it shows of a run's whole life, its buttons, and its text."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import jtrain
from jtrain.errors import RunNotFoundError
from jtrain.store.runs import RunStore
from jtrain.widgets.monitor import Monitor
from tests.cells import start, train
from tests.doors.stores import make_run

pytestmark = pytest.mark.timeout(180)


def wait_for(is_true: Any, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def open_view(monitor: Monitor) -> None:
    monitor._hear({"view": "a", "present": True})


def test_a_run_is_followed_over_a_pause_to_its_end_by_buttons() -> None:
    run = train(epochs=40, pause_s=0.02)
    monitor = jtrain.Monitor(run.id)
    open_view(monitor)
    wait_for(lambda: any("step" in fact for fact in monitor.shown["facts"]))
    assert (monitor.shown["state"], monitor.shown["is_still"], monitor.shown["can_resume"]) == ("running", False, False)
    monitor._hear({"command": "pause"})
    wait_for(lambda: monitor.shown["state"] == "paused" and monitor.shown["is_still"])
    assert monitor.shown["can_resume"]
    assert monitor.shown["devices"] == []
    monitor._hear({"command": "resume"})
    wait_for(lambda: monitor.shown["state"] == "running")
    assert not monitor.shown["is_still"]
    wait_for(lambda: monitor.shown["state"] == "finished" and monitor.shown["is_still"])
    assert "steps 320 (40 epochs)" in monitor.shown["facts"]
    assert not monitor.shown["can_resume"]
    assert len(monitor.shown["curve"]) > 10
    monitor.close()
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name == "jtrain-monitor"])


def test_stop_stops_and_a_resume_from_elsewhere_is_followed() -> None:
    run = train(epochs=400, pause_s=0.02)
    monitor = jtrain.Monitor(run)
    open_view(monitor)
    wait_for(lambda: run.progress.step > 2)
    monitor._hear({"command": "stop"})
    wait_for(lambda: monitor.shown["state"] == "stopped" and monitor.shown["is_still"])
    run.resume()
    wait_for(lambda: monitor.shown["state"] == "running")
    run.stop()
    run.wait(60)
    monitor.close()


def test_a_failure_is_told_in_words_and_its_output_as_text() -> None:
    run = start("run.print('<b>last words</b>')\nraise ValueError('<script>alert(1)</script>')")
    run.wait(60)
    shown = jtrain.Monitor(run).shown
    assert shown["state"] == "failed"
    assert "ValueError: <script>alert(1)</script>" in shown["note"]
    assert "<b>last words</b>" in shown["lines"]


def test_what_cant_be_done_is_told_in_words() -> None:
    monitor = jtrain.Monitor(make_run(state="finished"))
    monitor._hear({"command": "resume"})
    open_view(monitor)
    wait_for(lambda: "has finished" in monitor.shown["note"])
    monitor.close()


@pytest.mark.parametrize("content", [None, {"command": "rm"}, {"command": ["stop"]}, {"view": {}}, "stop"])
def test_what_a_strange_front_end_sends_does_no_harm(content: Any) -> None:
    monitor = jtrain.Monitor(make_run(state="running"))
    monitor._handle_custom_msg(content, [])
    assert monitor._pulse is not None
    assert not monitor._pulse.is_beating


def test_a_run_that_is_deleted_while_watched_is_told() -> None:
    run = make_run(state="finished", metrics={"loss": [2.0, 1.0]})
    monitor = jtrain.Monitor(run)
    RunStore().remove(run.id)
    open_view(monitor)
    wait_for(lambda: "was deleted" in monitor.shown["note"], timeout_s=10)
    monitor.close()


def test_the_newest_run_is_meant_where_none_is_named_and_names_are_understood() -> None:
    with pytest.raises(RunNotFoundError, match="no runs"):
        jtrain.Monitor()
    make_run("brisk-otter-1", name="mine", created=1.0)
    make_run("brisk-otter-2")
    assert jtrain.Monitor().run.id == "brisk-otter-2"
    assert jtrain.Monitor("mine").run.id == "brisk-otter-1"


def test_its_text_is_the_summary() -> None:
    monitor = jtrain.Monitor(make_run(state="paused", metrics={"loss": [2.0, 0.5]}))
    assert repr(monitor).startswith("run brisk-otter-7: paused")
    assert "loss" in repr(monitor)
