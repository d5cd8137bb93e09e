"""A real server behind a prefix, with a store and simulated GPUs of its own; runs start through a zygote."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import websocket

from jtrain.engine import zygote

BASE = "/user/someone/"
GPUS = [{"name": "Fake H200", "memory_total": 1 << 30}, {"name": "Fake H200", "memory_total": 1 << 30}]


class Socket:
    """The stream, as a page has it."""

    def __init__(self, server: Server, **options: Any) -> None:
        url = f"{server.url.replace('http', 'ws', 1)}stream?token={server.token}"
        self._socket = websocket.create_connection(url, timeout=20, **options)
        self.seq = 0

    def next(self) -> dict[str, Any]:
        """The next message; its number must follow the last one's."""
        message = json.loads(self._socket.recv())
        self.seq += 1
        assert message["seq"] == self.seq
        return message

    def until(self, wanted: Callable[[dict[str, Any]], bool], seconds: float = 30.0) -> dict[str, Any]:
        """The next message that `wanted` says yes to."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            message = self.next()
            if wanted(message):
                return message
        raise AssertionError("no such message")

    def type(self, kind: str) -> dict[str, Any]:
        return self.until(lambda message: message["type"] == kind)

    def wish(self, *follow: dict[str, Any], machine: bool = False, runs: bool = False) -> None:
        self.say(json.dumps({"type": "watch", "machine": machine, "runs": runs, "follow": list(follow)}))

    def say(self, text: str) -> None:
        self._socket.send(text)

    def close(self) -> None:
        self._socket.close()


def following(run_id: str, **more: Any) -> dict[str, Any]:
    return {"run": run_id, "metrics": None, "series": {}, "logs": {}, "samples": False, **more}


class Server:
    def __init__(self, folder: Path) -> None:
        self.home = folder / "störe"
        self.gpus = folder / "gpus.json"
        self.token = secrets.token_hex(8)
        self.show_gpus()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}{BASE}jtrain/api/"
        self._start(folder)

    def _start(self, folder: Path) -> None:
        environment = {
            **os.environ,
            "JTRAIN_HOME": str(self.home),
            "JTRAIN_MACHINE_DIR": str(folder / "machine"),
            "JTRAIN_SIMULATE_GPUS": str(self.gpus),
            "OMP_NUM_THREADS": "1",
            **{f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")},
        }
        command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ServerApp.port_retries=0"]
        command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self.port}", f"--ServerApp.base_url={BASE}"]
        command += [f"--IdentityProvider.token={self.token}", f"--ServerApp.root_dir={folder}"]
        command += ["--ServerApp.jpserver_extensions={'jtrain': True, 'jupyterlab': False, 'jupyter_lsp': False}"]
        with open(folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
        deadline = time.monotonic() + 30
        while True:
            try:
                if self.ask("GET", "choice").status_code == 200:
                    return
            except requests.ConnectionError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise AssertionError((folder / "server.log").read_text())
            time.sleep(0.1)

    def ask(self, method: str, path: str, **more: Any) -> requests.Response:
        headers = {"Authorization": f"token {self.token}"} | more.pop("headers", {})
        return requests.request(method, self.url + path, headers=headers, timeout=60, **more)

    def get(self, path: str, **more: Any) -> Any:
        answer = self.ask("GET", path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def act(self, run_id: str, **wish: Any) -> requests.Response:
        return self.ask("POST", f"runs/{run_id}/actions", json=wish)

    def show_gpus(self, *gpus: dict[str, Any], **more: Any) -> None:
        aside = self.gpus.with_suffix(".new")
        aside.write_text(json.dumps({"gpus": gpus or GPUS, **more}))
        aside.rename(self.gpus)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture(scope="package")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("served"))
    yield server
    server.close()


@pytest.fixture
def server(shared_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server; this test's store and machine are its own from now on."""
    monkeypatch.setenv("JTRAIN_HOME", str(shared_server.home))
    monkeypatch.setenv("JTRAIN_MACHINE_DIR", str(shared_server.home.parent / "machine"))
    return shared_server


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[[], Socket]]:
    """Makes sockets, closed at the end."""
    made: list[Socket] = []

    def make() -> Socket:
        made.append(Socket(server))
        assert made[-1].next()["type"] == "hello"
        return made[-1]

    yield make
    for opened in made:
        opened.close()


@pytest.fixture(scope="package", autouse=True)
def shared_zygote() -> Iterator[None]:
    zygote.start_for_kernel()
    yield
    zygote.close_for_kernel()
