"""The widgets in real kernels: shown as widgets where a front end answers, as text where none does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jtrain.domain.devices import SIMULATED_PREFIX
from jtrain.store.choice import read_choice, write_choice
from tests.cells import TRAINING
from tests.doors.kernels import Notebook, start_kernel
from tests.widgets.front import FrontEnd

pytestmark = pytest.mark.timeout(180)
VIEW = "application/vnd.jupyter.widget-view+json"
UUIDS = [f"{SIMULATED_PREFIX}0000-0000-0000-{index:012d}" for index in range(4)]
SLOW = TRAINING.replace("EPOCHS", "400").replace("PAUSE_S", "0.02")
SHORT = TRAINING.replace("EPOCHS", "4").replace("PAUSE_S", "0.01")
THREADS = "[thread.name for thread in __import__('threading').enumerate() if thread.name.startswith('jtrain-')]"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("widgets")


@pytest.fixture(scope="module")
def kernel(home: Path) -> Iterator[Notebook]:
    with start_kernel(home, JTRAIN_SIMULATE_GPUS="4") as notebook:
        notebook.run("import jtrain")
        yield notebook


def background(kernel: Notebook, code: str, name: str) -> None:
    done = kernel.run(f"%%jtrain --gpus none --nproc 1 --seed 1 --name {name} --background\n{code}")
    assert done.status == "ok", done.traceback


def test_text_gives_way_to_the_widget_when_the_front_end_answers(kernel: Notebook) -> None:
    front = FrontEnd(kernel)
    front.run("picker = jtrain.GPUPicker()\npicker")
    front.hear_until(lambda: any(VIEW in bundle for bundle in front.bundles))
    assert "GPU 0" in front.bundles[0]["text/plain"]
    assert front.bundles[-1][VIEW]["model_id"] == front.find("GPUPicker")
    assert "GPU 0" in front.bundles[-1]["text/plain"], "a saved notebook keeps the text beside it"


def test_a_picker_is_live_while_it_is_shown_and_chooses_by_messages(kernel: Notebook, home: Path) -> None:
    front = FrontEnd(kernel)
    front.run("picker = jtrain.GPUPicker()\nlen(picker.model_id)")
    picker = front.find("GPUPicker")
    assert kernel.value(THREADS) == "[]"
    front.look(picker)
    front.hear_until(lambda: bool(front.states[picker]["shown"]))
    first = front.states[picker]["shown"]["time"]
    front.hear_until(lambda: front.states[picker]["shown"]["time"] > first)
    front.send(picker, {"toggle": UUIDS[2]})
    front.hear_until(lambda: front.states[picker]["chosen"] == [UUIDS[2]])
    assert read_choice(home) == [UUIDS[2]]
    assert kernel.value("picker.value") == f"['{UUIDS[2]}']"
    write_choice(home, [UUIDS[0]])
    front.hear_until(lambda: front.states[picker]["chosen"] == [UUIDS[0]])
    front.look(picker, present=False)
    front.hear_until(lambda: kernel.value(THREADS) == "[]")


def test_widgets_hear_the_page_that_is_opened_after_the_first_one(kernel: Notebook, home: Path) -> None:
    write_choice(home, [])
    kernel.run("from jtrain.view import frontend\nfrontend._has_answered = False")
    front = FrontEnd(kernel)
    front.run("launcher = jtrain.Launcher()\nlauncher")
    front.hear_until(lambda: any(VIEW in bundle for bundle in front.bundles))
    picker, form = front.find("GPUPicker"), front.find("LaunchForm")
    front.send(form, {"change": {"accumulate": "2"}})
    front.hear_until(lambda: "--accumulate 2" in front.states[form]["command"])
    front.reload()
    front.send(form, {"change": {"accumulate": "3"}})
    front.hear_until(lambda: "--accumulate 3" in front.states[form]["command"])
    front.send(picker, {"toggle": UUIDS[2]})
    front.hear_until(lambda: front.states[picker]["chosen"] == [UUIDS[2]])


def test_a_picker_answers_while_a_cell_waits_for_its_run(kernel: Notebook, home: Path) -> None:
    write_choice(home, [])
    front = FrontEnd(kernel)
    front.run("picker = jtrain.GPUPicker()\nlen(picker.model_id)")
    picker = front.find("GPUPicker")
    chosen_at: list[str] = []

    def react(comm_id: str, changed: dict[str, Any]) -> None:
        shown = changed.get("shown", {})
        if shown.get("state") == "running" and not chosen_at:
            chosen_at.append("sent")
            front.send(picker, {"toggle": UUIDS[1]})
        if shown.get("state") == "running" and chosen_at == ["sent"] and read_choice(home):
            chosen_at.append("chosen")

    front.on_change = react
    front.run(f"%%jtrain --gpus none --nproc 1\n{SHORT.replace('0.01', '0.1')}")
    assert chosen_at == ["sent", "chosen"], "the click was heard while the cell was waiting"
    assert read_choice(home) == [UUIDS[1]]


def test_a_monitors_buttons_work_while_another_cell_waits(kernel: Notebook) -> None:
    background(kernel, SLOW, "watched")
    front = FrontEnd(kernel)
    front.run("monitor = jtrain.Monitor('watched')\nlen(monitor.model_id)")
    monitor = front.find("Monitor")
    front.look(monitor)
    states: list[str] = []

    def react(comm_id: str, changed: dict[str, Any]) -> None:
        if comm_id == monitor and "shown" in changed:
            states.append(changed["shown"]["state"])
            if states.count("running") == 1 and states[-1] == "running":
                front.send(monitor, {"command": "pause"})

    front.on_change = react
    front.run(f"%%jtrain --gpus none --nproc 1\n{SHORT.replace('0.01', '0.15')}")
    assert "paused" in states, "it was paused before the other cell was done"
    front.on_change = lambda comm_id, changed: None
    front.send(monitor, {"command": "resume"})
    front.hear_until(lambda: front.states[monitor]["shown"]["state"] == "running")
    front.send(monitor, {"command": "stop"})
    front.hear_until(lambda: front.states[monitor]["shown"]["state"] == "stopped")
    kernel.run("jtrain.Monitor('watched').run.wait(60)\nmonitor.close()")


def test_a_monitor_that_is_shown_leaves_the_still_summary(kernel: Notebook) -> None:
    background(kernel, SHORT.replace("0.01", "0.05"), "short")
    front = FrontEnd(kernel)
    front.run("monitor = jtrain.Monitor('short')\nmonitor")
    front.hear_until(lambda: any(VIEW in bundle for bundle in front.bundles))
    front.look(front.find("Monitor"))
    front.hear_until(lambda: VIEW not in front.bundles[-1])
    assert "finished" in front.bundles[-1]["text/plain"]
    assert "data:image/png" in front.bundles[-1]["text/html"]
    front.look(front.find("Monitor"), present=False)
    front.hear_until(lambda: kernel.value(THREADS) == "[]")


def test_a_cell_is_launched_from_the_form_below_it(kernel: Notebook, home: Path) -> None:
    write_choice(home, [UUIDS[3]])
    front = FrontEnd(kernel)
    front.run("number = 5")
    front.run("%%jtrain --launcher --gpus picker --name formed\nrun.log(x=number)")
    front.hear_until(lambda: any(VIEW in bundle for bundle in front.bundles))
    form = front.find("LaunchForm")
    assert front.states[form]["values"]["gpus"] == "picker"
    front.send(form, {"launch": {"gpus": "picker", "accumulate": "2"}})
    front.hear_until(lambda: any(state.get("shown", {}).get("id") for state in front.states.values()))
    kernel.run("formed = jtrain.last_run()\nformed.wait(60)")
    assert kernel.value("(formed.name, formed.metrics.last('x'), formed.standing.devices)") == (
        f"('formed', 5.0, ('{UUIDS[3]}',))"
    )


def test_a_cell_with_a_mistake_shows_no_form(kernel: Notebook) -> None:
    done = kernel.run("%%jtrain --launcher\nfor x in")
    assert done.status == "error"
    assert "SyntaxError" in done.traceback
    assert not done.displays


def test_importing_jtrain_imports_no_widgets() -> None:
    check = "import jtrain, sys\nassert not {'ipywidgets', 'anywidget', 'traitlets'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True, timeout=60)


CELLS = [
    "%env JTRAIN_SIMULATE_GPUS=2",
    "%load_ext jtrain\nimport jtrain",
    "picker = jtrain.GPUPicker()\npicker",
    f"picker.chosen = ['{UUIDS[1]}']\npicker.value",
    "def add(a, b):\n    return a + b\nlauncher = jtrain.Launcher(add, 1, b=2, options={'seed': 1})\nlauncher",
    "launcher.launch().result()",
    "jtrain.Monitor()",
    "%%jtrain --launcher --gpus none\nrun.log(x=1)",
]


@pytest.fixture
def notebook_file(tmp_path: Path) -> Path:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    path = tmp_path / "widgets.ipynb"
    nbformat.write(notebook, path)
    return path


def test_programs_that_run_notebooks_get_text_and_no_widgets(notebook_file: Path) -> None:
    command = [sys.executable, "-m", "jupyter", "execute", "--inplace", str(notebook_file)]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    saved = json.loads(notebook_file.read_text())
    outputs = [output for cell in saved["cells"] for output in cell["outputs"]]
    assert not [output for output in outputs if VIEW in output.get("data", {})]
    assert "widgets" not in saved["metadata"]
    texts = ["".join(output.get("data", {}).get("text/plain", "")) for output in outputs]
    assert any("GPU 1" in text for text in texts)
    assert any("Launch add(1, b=2)" in text for text in texts)
    assert any(text.startswith("run ") and "finished" in text for text in texts)
    lax = [sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-current-env", "-q", "-p", "no:cacheprovider"]
    again = subprocess.run([*lax, str(notebook_file)], timeout=120, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stdout
