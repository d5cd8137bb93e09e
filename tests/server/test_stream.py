"""The stream: what comes, in which order, and that nothing is lost or told twice."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from jtrain.domain.messages import Cursor
from jtrain.store.inbox import take
from jtrain.store.journal import Journal
from jtrain.store.runs import RunStore
from jtrain.store.series import SeriesWriter
from tests.cells import start
from tests.doors.stores import make_run
from tests.server.conftest import Server, Socket, following
from tests.server.test_rest import new_id

pytestmark = pytest.mark.timeout(120)
Connect = Callable[[], Socket]

LOGGING = """
import time
for number in range(NUMBER):
    run.log({"value": float(number)}, step=number)
    if number % 50 == 0:
        print("line", number, flush=True)
    time.sleep(0.002)
"""


class Reader:
    """Gathers one metric of a run as a page would, by cursors."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.steps: list[int] = []
        self.cursor: Cursor = {"attempt": 0, "count": 0}

    def read(self, socket: Socket, until: int) -> None:
        series: dict[str, Any] = {"value": self.cursor}
        socket.wish(following(self.run_id, metrics=["value"], series=series))
        while len(self.steps) < until:
            message = socket.type("points")
            assert message["restart"] == []
            for row in message["series"]:
                assert row["after"] == self.cursor
                self.steps += row["steps"]
                self.cursor = row["cursor"]


def test_a_page_that_comes_back_again_and_again_gets_every_point_once_while_the_run_logs(
    server: Server, connect: Connect
) -> None:
    run = start(LOGGING, {"NUMBER": 1500, "__name__": "__main__"}, nproc=1)
    reader = Reader(run.id)
    for part in range(1, 11):
        socket = connect()
        reader.read(socket, part * 150)
        socket.close()
    assert reader.steps == list(range(1500))
    run.wait(60)


def test_a_living_run_shows_in_the_list_and_rests_there(server: Server, connect: Connect) -> None:
    socket = connect()
    socket.wish(runs=True)
    assert socket.type("runs")["is_all"]
    run = start(LOGGING, {"NUMBER": 400, "__name__": "__main__"}, nproc=1)

    def is_in(*states: str) -> Callable[[dict[str, Any]], bool]:
        return lambda message: any(row["id"] == run.id and row["state"] in states for row in message.get("runs", ()))

    socket.until(is_in("queued", "starting", "running"))
    socket.until(is_in("finished"))
    RunStore().remove(run.id)
    socket.until(lambda message: run.id in message.get("removed", ()))


def test_a_resume_from_an_earlier_state_has_the_page_begin_anew(server: Server, connect: Connect) -> None:
    run = make_run(new_id(), state="failed", metrics={"loss": [3.0, 2.0, 1.0], "kept": [0.0]})
    times = run.metrics.times("loss")
    socket = connect()
    cursors = {"loss": {"attempt": 1, "count": 3}, "kept": {"attempt": 1, "count": 1}}
    socket.wish(following(run.id, metrics=["loss", "kept"], series=cursors))
    socket.type("detail")
    journal = Journal(run.paths.journal)
    journal.write("queued", reason="resumed")
    journal.write("starting", attempt=2, devices=["CPU-0"], resume_step=1, resume_time=float(times[1]))
    SeriesWriter(run.paths.attempt(2).metrics(0)).append("loss", [(2, time.time(), 0.5)])
    restarted: set[str] = set()
    while "loss" not in restarted:
        restarted |= set(socket.type("points")["restart"])
    series = {row["name"]: row for row in server.get(f"runs/{run.id}/metrics")["series"]}
    assert series["loss"]["values"] == [3.0, 2.0, 0.5]
    assert series["loss"]["cursor"] == {"attempt": 2, "count": 1}
    SeriesWriter(run.paths.attempt(2).metrics(0)).append("loss", [(3, time.time(), 0.25)])
    row = socket.until(lambda message: message["type"] == "points" and message["series"])["series"][-1]
    assert (row["after"], row["values"]) == ({"attempt": 2, "count": 1}, [0.25])


def test_a_log_goes_on_from_its_cursor_between_whole_characters(server: Server, connect: Connect) -> None:
    run = make_run(new_id(), state="running", log="first\n")
    path = run.paths.attempt(1).log(0)
    socket = connect()
    socket.wish(following(run.id, logs={"0": {"attempt": 1, "count": 6}}))
    text = "\x1b[31m</script>é\r"
    for byte in text.encode():
        with open(path, "ab") as file:
            file.write(bytes([byte]))
        time.sleep(0.02)
    got = ""
    while len(got) < len(text):
        message = socket.type("log")
        got += message["text"]
    assert got == text
    assert message["cursor"] == {"attempt": 1, "count": 6 + len(text.encode())}


def test_a_flood_of_log_is_cut_and_says_so(server: Server, connect: Connect) -> None:
    run = make_run(new_id(), log="x" * 3_000_000 + "end")
    socket = connect()
    socket.wish(following(run.id, logs={"0": {"attempt": 0, "count": 0}}))
    message = socket.type("log")
    assert message["text"].endswith("end")
    assert message["skipped_bytes"] + len(message["text"]) == 3_000_003


def test_many_points_at_once_are_thinned_and_the_cursor_moves_past_them(server: Server, connect: Connect) -> None:
    run = make_run(new_id(), state="running", metrics={"loss": [0.0] * 50_000})
    socket = connect()
    socket.wish(following(run.id))
    row = socket.type("points")["series"][0]
    assert len(row["steps"]) <= 2000
    assert row["cursor"] == {"attempt": 1, "count": 50_000}


def test_a_run_that_is_deleted_while_it_is_followed_is_gone(server: Server, connect: Connect) -> None:
    run = make_run(new_id(), metrics={"loss": [1.0]})
    socket = connect()
    socket.wish(following(run.id))
    socket.type("points")
    RunStore().remove(run.id)
    assert socket.type("gone")["run"] == run.id
    socket.wish(following(run.id))
    assert socket.type("gone")["run"] == run.id


def test_new_metrics_and_checkpoints_are_told_of(server: Server, connect: Connect) -> None:
    run = make_run(new_id(), state="running", metrics={"loss": [1.0]})
    socket = connect()
    socket.wish(following(run.id, metrics=[]))
    socket.type("detail")
    SeriesWriter(run.paths.attempt(1).metrics(0)).append("val/loss", [(1, time.time(), 1.0)])
    socket.type("detail")
    (run.paths.checkpoints / "step-1").mkdir()
    socket.type("detail")


def test_readings_of_a_real_run_come_with_it_and_can_be_read_afterwards(server: Server, connect: Connect) -> None:
    run = start(LOGGING, {"NUMBER": 900, "__name__": "__main__"}, nproc=1)
    socket = connect()
    socket.wish(following(run.id, samples=True))
    samples = socket.type("samples")["samples"]
    assert list(samples["load_percent"]) == ["cpu"]
    assert len(samples["times"]) == len(samples["load_percent"]["cpu"]) > 0
    run.wait(60)
    told = server.get(f"runs/{run.id}/samples?max_points=2")
    assert 0 < len(told["times"]) <= 2
    assert told["memory_total_bytes"]["cpu"]


def test_the_choice_of_devices_is_told_when_somebody_else_changes_it(server: Server, connect: Connect) -> None:
    socket = connect()
    socket.wish(machine=True)
    socket.type("choice")
    chosen = [f"GPU-{os.urandom(4).hex()}"]
    server.ask("PUT", "choice", json={"uuids": chosen})
    socket.until(lambda message: message["type"] == "choice" and message["choice"]["uuids"] == chosen)


def test_nothing_is_taken_from_an_inbox_by_looking(server: Server, connect: Connect) -> None:
    run = make_run(new_id(), state="paused")
    run.paths.inbox.joinpath("1-stop.json").write_text('{"command": "stop"}')
    socket = connect()
    socket.wish(following(run.id), runs=True, machine=True)
    socket.type("runs")
    server.get(f"runs/{run.id}")
    assert [command.name for command in take(run.paths.inbox)] == ["stop"]


def test_what_can_not_be_read_for_a_while_is_followed_on_afterwards(server: Server, connect: Connect) -> None:
    run = make_run(new_id(), state="running", metrics={"loss": [1.0]})
    socket = connect()
    socket.wish(following(run.id), runs=True)
    socket.type("points")
    run.paths.attempt(1).samples.mkdir()  # the user may be root, whom no permission keeps out
    time.sleep(0.5)
    run.paths.attempt(1).samples.rmdir()
    SeriesWriter(run.paths.attempt(1).metrics(0)).append("loss", [(2, time.time(), 0.5)])
    row = socket.until(lambda message: message["type"] == "points" and message["series"])["series"][-1]
    assert row["values"] == [0.5]


def test_ranks_that_a_run_had_before_it_went_on_with_fewer_still_have_their_logs(server: Server) -> None:
    run = make_run(new_id(), state="paused", log="rank 0\n")
    run.paths.attempt(1).log(3).write_text("rank 3\n")
    journal = Journal(run.paths.journal)
    journal.write("queued", reason="resumed")
    journal.write("starting", attempt=2, devices=["CPU-0"])
    journal.write("running")
    run.paths.attempt(2).create()
    run.paths.attempt(2).log(0).write_text("rank 0 again\n")
    assert server.get(f"runs/{run.id}")["num_ranks"] == 4
    assert server.get(f"runs/{run.id}/logs?rank=3")["text"] == "rank 3\n"
    assert server.get(f"runs/{run.id}/logs?rank=0")["text"] == "rank 0\nrank 0 again\n"
