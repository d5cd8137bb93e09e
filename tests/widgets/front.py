"""A front end played by messages: it knows the widgets of a kernel, shows them and clicks."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty
from typing import Any

from tests.doors.kernels import Notebook, Outputs


class FrontEnd:
    """Keeps the state of every widget that the kernel opens, and what the outputs became."""

    def __init__(self, notebook: Notebook, *, answers: bool = True) -> None:
        self._client = notebook.client
        self._client.session.username = ""  # as JupyterLab has it
        self._answers = answers
        self._subshell = self._make_subshell()
        self.states: dict[str, dict[str, Any]] = {}
        self.kinds: list[str] = []
        self.bundles: list[dict[str, Any]] = []
        self.closed: set[str] = set()
        self.on_change: Callable[[str, dict[str, Any]], None] = lambda comm_id, changed: None

    def run(self, cell: str) -> Outputs:
        """Run a cell to its end; messages that don't belong to it are heard meanwhile too."""
        outputs = Outputs()
        request = self._client.execute(cell, allow_stdin=False)
        while True:
            message = self._client.get_iopub_msg(timeout=90)
            self._hear(message)
            if message["parent_header"].get("msg_id") == request:
                outputs.add(message)
                if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                    break
        assert not outputs.error, outputs.traceback
        return outputs

    def hear_until(self, is_true: Callable[[], bool], timeout_s: float = 30.0) -> None:
        """Take messages until something is so."""
        deadline = time.monotonic() + timeout_s
        while not is_true():
            assert time.monotonic() < deadline, f"it didn't come; the last messages were {self.kinds[-20:]}"
            try:
                self._hear(self._client.get_iopub_msg(timeout=0.2))
            except Empty:
                continue

    def find(self, kind: str) -> str:
        """The newest widget of a Python class called `kind`."""
        found = [comm_id for comm_id, state in self.states.items() if state.get("_anywidget_id", "").endswith(kind)]
        assert found, f"no {kind} was opened"
        return found[-1]

    def send(self, comm_id: str, content: dict[str, Any]) -> None:
        """What a view sends with `model.send`."""
        data = {"comm_id": comm_id, "data": {"method": "custom", "content": content}}
        message = self._client.session.msg("comm_msg", data)
        message["header"]["subshell_id"] = self._subshell
        self._client.shell_channel.send(message)

    def look(self, comm_id: str, *, present: bool = True) -> None:
        """A view opens, or goes."""
        self.send(comm_id, {"view": "view-1", "present": present})

    def reload(self) -> None:
        """The page is closed and opened again: its subshell ends, and there is a new one."""
        request = self._client.session.msg("delete_subshell_request", {"subshell_id": self._subshell})
        self._client.control_channel.send(request)
        self._client.get_control_msg(timeout=30)
        self._subshell = self._make_subshell()

    def _make_subshell(self) -> str:
        request = self._client.session.msg("create_subshell_request", {})
        self._client.control_channel.send(request)
        while True:
            reply = self._client.get_control_msg(timeout=30)
            if reply["parent_header"]["msg_id"] == request["header"]["msg_id"]:
                return str(reply["content"]["subshell_id"])

    def _hear(self, message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        self.kinds.append(kind)
        if kind == "comm_open":
            self._opened(content)
        elif kind == "comm_msg" and content["data"].get("method") == "update":
            self.states.setdefault(content["comm_id"], {}).update(content["data"]["state"])
            self.on_change(content["comm_id"], content["data"]["state"])
        elif kind == "comm_close":
            self.closed.add(content["comm_id"])
        elif kind in ("display_data", "update_display_data"):
            self.bundles.append(content["data"])

    def _opened(self, content: dict[str, Any]) -> None:
        state = content["data"]["state"]
        if state.get("_anywidget_id") == "jtrain.probe":
            if self._answers:
                self.send(content["comm_id"], {"alive": True})
            return
        self.states[content["comm_id"]] = state
        self.on_change(content["comm_id"], state)
