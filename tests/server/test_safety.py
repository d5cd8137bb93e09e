"""Who is refused, and that no path leaves the store."""

from __future__ import annotations

import pytest
import requests
import websocket

from tests.doors.stores import make_run
from tests.server.conftest import Server, Socket
from tests.server.test_rest import new_id

pytestmark = pytest.mark.timeout(60)
ELSEWHERE = {"Origin": "http://evil.example"}


def test_strangers_are_refused(server: Server) -> None:
    for path in ("runs", "machine", "choice", "runs/a-b-1", "nothing"):
        assert requests.get(server.url + path, timeout=20).status_code == 403
    assert requests.post(server.url + "runs/a-b-1/actions", json={"action": "stop"}, timeout=20).status_code == 403
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        websocket.create_connection(server.url.replace("http", "ws", 1) + "stream", timeout=20)
    assert refused.value.status_code == 403


def test_pages_of_other_origins_are_refused(server: Server) -> None:
    run = make_run(new_id(), state="paused")
    session = requests.Session()
    session.get(
        server.url.replace("jtrain/api/", f"api/status?token={server.token}"), timeout=20
    )  # a logged-in browser
    for options in ({"headers": ELSEWHERE}, {}):
        answer = session.post(f"{server.url}runs/{run.id}/actions", json={"action": "stop"}, timeout=20, **options)
        assert answer.status_code in (403, 404)
    assert run.state == "paused"
    stream = server.url.replace("http", "ws", 1) + "stream"
    cookie = "; ".join(f"{name}={value}" for name, value in session.cookies.items())
    websocket.create_connection(stream, timeout=20, cookie=cookie).close()
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        websocket.create_connection(stream, timeout=20, cookie=cookie, origin=ELSEWHERE["Origin"])
    assert refused.value.status_code == 403


@pytest.mark.parametrize("run_id", ["..%2F..%2Fetc%2Fpasswd", "../../etc/passwd", "%2e%2e", "a%00b", "A B", "x" * 300])
def test_what_is_no_run_id_never_reaches_the_disk(server: Server, run_id: str) -> None:
    for rest in ("", "/metrics", "/logs", "/samples"):
        answer = server.ask("GET", f"runs/{run_id}{rest}")
        assert 400 <= answer.status_code < 500
        assert "root:" not in answer.text
    assert 400 <= server.act(run_id, action="stop").status_code < 500


def test_wishes_that_make_no_sense_are_refused_with_a_sentence(server: Server) -> None:
    run = make_run(new_id())
    for body in ({"action": "explode"}, {}, {"action": "priority", "priority": "high"}):
        assert server.act(run.id, **body).status_code == 400
    for query in ("metrics?max_points=many", "logs?lines=x", "metrics?from=a"):
        answer = server.ask("GET", f"runs/{run.id}/{query}")
        assert answer.status_code == 400
        assert answer.json()["message"]
    opened = Socket(server)
    follow = '"follow":[{"run":"../x","metrics":null,"series":{},"logs":{},"samples":false}]'
    for text in ("nonsense", "{}", '{"type":"watch","machine":true,"runs":false,' + follow + "}"):
        opened.say(text)
        assert opened.type("refusal")["message"]
    opened.close()
