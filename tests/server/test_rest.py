"""What the routes answer about runs."""

from __future__ import annotations

import uuid

import numpy as np
import pytest

from jtrain.store.series import POINT, SeriesWriter
from tests.doors.stores import make_run
from tests.server.conftest import Server

pytestmark = pytest.mark.timeout(90)


def new_id() -> str:
    return f"t-{uuid.uuid4().hex[:10]}"


def test_a_finished_run_is_listed_and_told_with_everything(server: Server) -> None:
    name = "<img src=x onerror=alert(1)>"
    run = make_run(new_id(), name=name, source="x = 1", metrics={"train/loss": [3.0, 2.0, 1.0]}, tag={"a": "b"})
    row = next(row for row in server.get("runs")["runs"] if row["id"] == run.id)
    assert (row["name"], row["state"], row["tags"], row["can_resume"]) == (name, "finished", {"a": "b"}, False)
    told = server.get(f"runs/{run.id}")
    assert told["metrics"] == ["train/loss"]
    assert told["source"] == "x = 1"
    assert [event["kind"] for event in told["events"]] == ["queued", "starting", "running", "finished"]
    assert server.get(f"sparks?id={run.id}&id=no-such-run")["sparks"] == {run.id: [3.0, 2.0, 1.0], "no-such-run": []}


def test_numbers_that_json_does_not_know_travel_as_words(server: Server) -> None:
    run = make_run(new_id(), metrics={"loss": [1.0, float("nan"), float("inf"), float("-inf")]})
    series = server.get(f"runs/{run.id}/metrics")["series"][0]
    assert series["values"] == [1.0, "NaN", "Infinity", "-Infinity"]
    assert series["cursor"] == {"attempt": 1, "count": 4}


def test_a_long_curve_keeps_its_extremes_and_a_part_of_it_is_told_finer(server: Server) -> None:
    run = make_run(new_id(), metrics={"loss": []})
    points = np.zeros(10_000_000, POINT)
    points["step"] = points["time"] = np.arange(len(points))
    points["value"][7_654_321] = 9.0
    points["value"][1_234_567] = -9.0
    SeriesWriter(run.paths.attempt(1).metrics(0)).append("loss", points)
    series = server.get(f"runs/{run.id}/metrics?name=loss&max_points=1000")["series"][0]
    assert (series["count"], series["is_whole"]) == (10_000_000, False)
    assert len(series["values"]) <= 1000
    assert (min(series["values"]), max(series["values"])) == (-9.0, 9.0)
    query = "name=loss&max_points=1000&axis=time&from=7654300&to=7654400"
    part = server.get(f"runs/{run.id}/metrics?{query}")["series"][0]
    assert (part["steps"][0], part["steps"][-1], part["is_whole"]) == (7_654_299, 7_654_401, True)
    assert max(part["values"]) == 9.0


def test_the_end_of_a_log_comes_as_it_was_printed(server: Server) -> None:
    log = "first\n\x1b[31mred\x1b[0m </script><b>\n" + "".join(f"line {number} é\n" for number in range(3000)) + "open"
    run = make_run(new_id(), log=log)
    told = server.get(f"runs/{run.id}/logs?rank=0&lines=5000")
    assert (told["text"], told["skipped"]) == (log, False)
    assert told["cursor"] == {"attempt": 1, "count": len(log.encode())}
    short = server.get(f"runs/{run.id}/logs?rank=0&lines=3")
    assert (short["text"], short["skipped"]) == ("line 2998 é\nline 2999 é\nopen", True)
    assert server.get(f"runs/{run.id}/logs?rank=7&lines=3")["text"] == ""


def test_the_choice_is_written_and_read_back_and_nonsense_is_refused(server: Server) -> None:
    assert server.ask("PUT", "choice", json={"uuids": ["GPU-1", "GPU-2"]}).json() == {"uuids": ["GPU-1", "GPU-2"]}
    assert server.get("choice") == {"uuids": ["GPU-1", "GPU-2"]}
    for body in ({"uuids": ["../../x"]}, {"uuids": "GPU-1"}, {}, [1]):
        answer = server.ask("PUT", "choice", json=body)
        assert answer.status_code == 400
        assert answer.json()["message"]
    assert server.get("choice") == {"uuids": ["GPU-1", "GPU-2"]}
