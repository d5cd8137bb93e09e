"""Pause, resume, stop and priority, asked for over the network and done to real runs."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from jtrain.domain.states import State
from jtrain.run import Run
from jtrain.store.runs import RunStore
from tests.cells import start, train
from tests.doors.stores import make_run
from tests.server.conftest import Server, Socket, following
from tests.server.test_rest import new_id

pytestmark = pytest.mark.timeout(150)


def until(condition: Callable[[], bool], seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_a_run_is_paused_and_resumed_and_the_page_follows_it_over_both_attempts(
    server: Server, connect: Callable[[], Socket]
) -> None:
    run = train(epochs=12, pause_s=0.02, nproc=1, checkpoint_every="5steps")
    socket = connect()
    socket.wish(following(run.id))
    until(lambda: run.progress.step > 12)
    answer = server.act(run.id, action="pause")
    assert answer.status_code == 200, answer.text
    assert run.wait(60) is State.PAUSED
    assert server.act(run.id, action="pause").status_code == 409
    answer = server.act(run.id, action="resume")
    assert answer.status_code == 200, answer.text
    assert answer.json()["run"] == run.id
    assert run.wait(60) is State.FINISHED
    name = run.metrics.columns[0]

    def has_second_attempt(message: dict) -> bool:  # type: ignore[type-arg]
        return any(row["cursor"]["attempt"] == 2 for row in message.get("series", ()) if row["name"] == name)

    socket.until(has_second_attempt)
    told = server.get(f"runs/{run.id}/metrics", params={"name": name})["series"][0]
    assert told["steps"] == run.metrics.steps(name).tolist()
    _go_on_from_an_earlier_checkpoint(server, run)


def _go_on_from_an_earlier_checkpoint(server: Server, run: Run) -> None:
    checkpoints = server.get(f"runs/{run.id}")["checkpoints"]
    assert server.act(run.id, action="resume").status_code == 409  # it has finished
    assert server.act(run.id, action="resume", checkpoint="../../x").status_code == 400
    first = checkpoints[0]
    answer = server.act(run.id, action="resume", checkpoint=first["name"])
    assert answer.status_code == 200, answer.text
    made = Run(answer.json()["run"], RunStore())
    assert made.id != run.id
    assert made.wait(60) is State.FINISHED
    start_ = next(event for event in made.events() if event.kind == "starting")
    assert start_.data["resume_step"] == first["step"]
    assert made.spec.resumed_from == f"{run.id}/{first['name']}"


def test_a_run_is_stopped(server: Server) -> None:
    run = start("import time\ntime.sleep(60)", {"__name__": "__main__"}, nproc=1)
    until(lambda: run.state is State.RUNNING)
    assert server.act(run.id, action="stop").status_code == 200
    assert run.wait(30) is State.STOPPED
    assert server.act(run.id, action="stop").status_code == 409


def test_the_priority_of_a_waiting_run_changes_its_place_and_that_of_others_does_not(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JTRAIN_CPU_SLOTS", "1")
    body = "import time\ntime.sleep(PAUSE_S)"
    first = start(body, {"PAUSE_S": 60.0, "__name__": "__main__"}, nproc=1)
    until(lambda: first.state is State.RUNNING)
    second, third = (start(body, {"PAUSE_S": 0.0, "__name__": "__main__"}, nproc=1) for _ in range(2))
    until(lambda: "ahead" in third.reason and "waiting" in second.reason)
    assert server.act(first.id, action="priority", priority=5).status_code == 409
    assert server.act(third.id, action="priority", priority=5).status_code == 200
    until(lambda: third.standing.priority == 5)
    until(lambda: third.id in second.reason)
    row = next(row for row in server.get("runs")["runs"] if row["id"] == third.id)
    assert row["priority"] == 5
    first.stop()
    assert third.wait(60) is State.FINISHED
    assert second.wait(60) is State.FINISHED
    started = [next(event.time for event in run.events() if event.kind == "starting") for run in (third, second)]
    assert started == sorted(started)


def test_what_is_at_rest_is_not_asked_for_anything(server: Server) -> None:
    run = make_run(new_id())
    for wish in ({"action": "pause"}, {"action": "stop"}, {"action": "priority", "priority": 1}, {"action": "resume"}):
        answer = server.act(run.id, **wish)
        assert answer.status_code == 409, wish
        assert run.id in answer.json()["message"]
    assert not list(run.paths.inbox.iterdir())
