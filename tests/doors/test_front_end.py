"""The live widget, with a front end played by messages: it answers the kernel's question, and clicks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cells import TRAINING
from tests.doors.kernels import Notebook, Outputs, start_kernel

pytestmark = pytest.mark.timeout(180)

HEAD = "%%jtrain --nproc 2 --gpus none --seed 1"


def training(epochs: int, pause_s: float) -> str:
    return f"{HEAD}\n{TRAINING.replace('EPOCHS', str(epochs)).replace('PAUSE_S', str(pause_s))}"


class FrontEnd:
    """Hears what a kernel sends while a cell runs, and answers."""

    def __init__(self, notebook: Notebook) -> None:
        self._client = notebook.client
        self._client.session.username = ""  # as JupyterLab has it
        self._subshell = self._make_subshell()
        self.outputs = Outputs()
        self.widget = ""
        self.updates: list[tuple[float, dict[str, Any]]] = []
        self.kinds: list[str] = []
        self.on_update: Callable[[dict[str, Any]], None] = lambda shown: None

    def run(self, cell: str) -> Outputs:
        reply = self._client.execute_interactive(cell, timeout=90, output_hook=self._hear, allow_stdin=False)
        self.outputs.status = reply["content"]["status"]
        return self.outputs

    def _make_subshell(self) -> str:
        """JupyterLab sends what widgets say through a subshell, and before 7.4 ipykernel needs that."""
        request = self._client.session.msg("create_subshell_request", {})
        self._client.control_channel.send(request)
        while True:
            reply = self._client.get_control_msg(timeout=30)
            if reply["parent_header"]["msg_id"] == request["header"]["msg_id"]:
                return reply["content"]["subshell_id"]

    def send(self, comm_id: str, content: dict[str, Any]) -> None:
        data = {"comm_id": comm_id, "data": {"method": "custom", "content": content}}
        message = self._client.session.msg("comm_msg", data)
        message["header"]["subshell_id"] = self._subshell
        self._client.shell_channel.send(message)

    def _hear(self, message: dict[str, Any]) -> None:
        self.outputs.add(message)
        kind, content = message["msg_type"], message["content"]
        self.kinds.append(kind)
        if kind == "comm_open":
            state = content["data"]["state"]
            if state.get("_anywidget_id") == "jtrain.probe":
                self.send(content["comm_id"], {"alive": True})
            elif "RunWidget" in state.get("_anywidget_id", ""):
                self.widget = content["comm_id"]
                self._note(state)
        elif kind == "comm_msg" and content["comm_id"] == self.widget and content["data"].get("method") == "update":
            self._note(content["data"]["state"])

    def _note(self, state: dict[str, Any]) -> None:
        if "shown" in state:
            self.updates.append((time.monotonic(), state["shown"]))
            self.on_update(state["shown"])


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with start_kernel(tmp_path_factory.mktemp("front end")) as notebook:
        yield notebook


def test_the_widget_shows_the_run_and_still_outputs_take_its_place(notebook: Notebook) -> None:
    front = FrontEnd(notebook)
    done = front.run(training(epochs=40, pause_s=0.01) + "run.print('last words')\n")
    assert done.status == "ok", done.traceback
    shown = [update for _, update in front.updates]
    assert shown[-1]["state"] == "running"
    assert [metric for metric, _ in shown[-1]["metrics"]] == ["loss"]
    assert len(shown[-1]["curve"]) > 10
    shares = [update["share"] for update in shown if update["share"] is not None]
    assert shares == sorted(shares)
    assert any(update["devices"] for update in shown)
    assert any("left" in fact for update in shown for fact in update["facts"])
    assert front.kinds.index("clear_output") > front.kinds.index("display_data")
    after = front.kinds[front.kinds.index("clear_output") :]
    assert after.count("display_data") == 2
    assert done.stdout == "last words\n"
    assert "application/vnd.jupyter.widget-view+json" in done.displays[0]
    assert not any("widget" in kind for data in done.displays[1:] for kind in data)


def test_a_fast_loop_does_not_mean_more_than_five_updates_a_second(notebook: Notebook) -> None:
    front = FrontEnd(notebook)
    front.run(f"{HEAD}\nimport time\nend = time.time() + 3\nwhile time.time() < end:\n    run.log(x=1.0)")
    times = [time for time, _ in front.updates]
    assert len(times) > 2
    assert (len(times) - 1) / (times[-1] - times[0]) < 5.5


@pytest.mark.parametrize(("command", "state"), [("pause", "paused"), ("stop", "stopped")])
def test_buttons_work_while_the_cell_waits(notebook: Notebook, command: str, state: str) -> None:
    front = FrontEnd(notebook)

    def click(shown: dict[str, Any]) -> None:
        if any("step" in fact for fact in shown["facts"]):
            front.on_update = lambda shown: None
            front.send(front.widget, {"command": command})

    front.on_update = click
    ended = front.run(training(epochs=5000, pause_s=0.01))
    assert (ended.status, ended.error) == ("error", "RunInterrupted")
    assert f" {'was stopped' if state == 'stopped' else 'is paused'} at step" in ended.message


def test_what_a_strange_front_end_sends_does_no_harm(notebook: Notebook) -> None:
    front = FrontEnd(notebook)

    def disturb(shown: dict[str, Any]) -> None:
        for content in ({"command": "rm"}, {"command": ["pause"]}, {}, {"alive": 1}):
            front.send(front.widget, content)

    front.on_update = disturb
    assert front.run(training(epochs=20, pause_s=0.01)).status == "ok"


def test_whoever_wants_text_gets_text_also_in_a_browser(notebook: Notebook) -> None:
    notebook.run("import os; os.environ['JTRAIN_VIEW'] = 'text'")
    front = FrontEnd(notebook)
    done = front.run(f"{HEAD}\nimport time\ntime.sleep(1)\nrun.print('hello')")
    notebook.run("del os.environ['JTRAIN_VIEW']")
    assert done.stdout == "hello\n"
    assert not {"comm_open", "clear_output"} & set(front.kinds)


def test_a_program_that_runs_notebooks_is_not_asked_for_widgets(notebook: Notebook) -> None:
    front = FrontEnd(notebook)
    notebook.client.session.username = "someone"
    ended = front.run(training(epochs=2, pause_s=0.01))
    assert ended.status == "ok"
    assert "comm_open" not in front.kinds
    assert "finished" in ended.texts[0]
