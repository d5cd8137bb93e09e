"""The sidebar in a real JupyterLab: devices, runs, and what it says when something is missing."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from jtrain.domain.devices import SIMULATED_PREFIX
from jtrain.domain.states import State
from jtrain.run import Run, runs
from jtrain.store.choice import read_choice, write_choice
from tests.cells import TRAINING, start, train
from tests.ui.conftest import Lab, running_lab
from tests.ui.runview import open_sidebar, plot, wait_for_points

pytestmark = pytest.mark.timeout(240)
UUIDS = [f"{SIMULATED_PREFIX}0000-0000-0000-{index:012d}" for index in range(4)]
CELL = "%%jtrain --nproc 2 --gpus none --seed 1 --name live --checkpoint-every 20steps\n" + TRAINING.replace(
    "EPOCHS", "120"
).replace("PAUSE_S", "0.02")


@pytest.fixture
def simulated_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JTRAIN_SIMULATE_GPUS", "4")


@pytest.fixture
def gpu_lab(simulated_gpus: None, tmp_path: Path, own_store: Path) -> Iterator[Lab]:
    with running_lab(tmp_path) as lab:
        yield lab


def until_there_is_a_run(page: Page) -> Run:
    deadline = time.monotonic() + 60
    while not (found := runs()):
        assert time.monotonic() < deadline, "the page has launched no run"
        page.wait_for_timeout(100)
    return found[0]


def until(page: Page, run: Run, state: State) -> None:
    deadline = time.monotonic() + 60
    while run.state is not state:
        assert time.monotonic() < deadline, f"the run is {run.state}, not {state}"
        page.wait_for_timeout(100)


def until_chosen(page: Page, store: Path, *uuids: str) -> None:
    """The page shows a choice before the server has it."""
    deadline = time.monotonic() + 30
    while read_choice(store) != list(uuids):
        assert time.monotonic() < deadline, f"chosen are {read_choice(store)}"
        page.wait_for_timeout(100)


def act(page: Page, run: str, action: str) -> None:
    row = page.locator(f'#jtrain-panel li[data-run="{run}"]')
    row.hover()
    row.locator(f'[data-action="{action}"]').click()


def test_devices_are_live_and_chosen_by_click_and_by_key(gpu_lab: Lab, own_store: Path, page: Page) -> None:
    gpu_lab.go(page)
    sidebar = open_sidebar(page)
    tiles = sidebar.locator("[data-device].jp-JtrainTile")
    expect(tiles).to_have_count(4)
    expect(sidebar.get_by_text("simulated", exact=True)).to_have_count(4)
    load = tiles.nth(0).get_by_role("meter", name="Load")
    seen = {load.get_attribute("aria-valuetext")}
    deadline = time.monotonic() + 30
    while len(seen) < 2:
        assert time.monotonic() < deadline, "the load never changes"
        page.wait_for_timeout(200)
        seen.add(load.get_attribute("aria-valuetext"))
    tiles.nth(1).get_by_role("button").first.click()
    expect(sidebar.get_by_text("1 device chosen")).to_be_visible()
    tiles.nth(3).get_by_role("button").first.focus()
    page.keyboard.press("Space")
    expect(sidebar.get_by_text("2 devices chosen")).to_be_visible()
    until_chosen(page, own_store, UUIDS[1], UUIDS[3])
    write_choice(own_store, [UUIDS[2]])  # as a GPUPicker in a notebook does
    expect(tiles.nth(2).get_by_role("button").first).to_have_attribute("aria-pressed", "true")
    expect(tiles.nth(1).get_by_role("button").first).to_have_attribute("aria-pressed", "false")


def test_without_a_gpu_it_says_so_and_shows_cpu_and_memory(lab: Lab, page: Page) -> None:
    lab.go(page)
    sidebar = open_sidebar(page)
    expect(sidebar.locator('[data-notice="no-gpu"]')).to_contain_text("There is no GPU here")
    expect(sidebar.get_by_role("meter", name="Memory")).to_have_attribute("aria-valuetext", re.compile(r"\d.* / \d.*B"))
    expect(sidebar.locator('[data-notice="no-runs"]')).to_contain_text("%load_ext jtrain")


def test_a_cell_is_watched_paused_and_resumed_while_the_kernel_is_busy(lab: Lab, page: Page) -> None:
    lab.write("train.ipynb", "%load_ext jtrain", CELL)
    lab.open(page, "train.ipynb")
    sidebar = open_sidebar(page)
    lab.run_all(page)
    run = until_there_is_a_run(page)
    row = sidebar.locator(f'li[data-run="{run.id}"]')
    expect(row).to_contain_text("running", timeout=30_000)
    row.get_by_role("button").first.click()
    view = sidebar.locator(".jp-JtrainRun")
    wait_for_points(page, view, "loss", 20)
    assert plot(view, "loss").is_visible()
    act(page, run.id, "pause")
    expect(row).to_contain_text("paused", timeout=30_000)
    assert run.state is State.PAUSED
    act(page, run.id, "resume")
    expect(row).to_contain_text("running", timeout=30_000)
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.reload()
    page.wait_for_function("() => window.jupyterapp")
    page.evaluate("async () => { await jupyterapp.restored; }")
    row = page.locator(f'#jtrain-panel li[data-run="{run.id}"]')
    expect(row).to_be_visible()  # the panel is open again, where it was
    assert run.state is State.RUNNING
    act(page, run.id, "stop")
    page.locator(".jp-Dialog").get_by_role("button", name="Stop").click()
    until(page, run, State.STOPPED)
    expect(row).to_contain_text("stopped")


def test_a_run_leads_to_its_cell(lab: Lab, page: Page) -> None:
    lab.write("train.ipynb", "%load_ext jtrain", "%%jtrain --nproc 1 --gpus none\nprint('first')", "print('other')")
    lab.open(page, "train.ipynb")
    sidebar = open_sidebar(page)
    lab.run_all(page)
    run = until_there_is_a_run(page)
    until(page, run, State.FINISHED)
    page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    page.evaluate("() => jupyterapp.shell.currentWidget.close()")
    act(page, run.id, "open-notebook")
    page.wait_for_function("() => jupyterapp.shell.currentWidget?.content?.activeCellIndex === 1")
    expect(sidebar).to_be_visible()


def test_names_are_text_and_runs_are_found(lab: Lab, page: Page) -> None:
    hostile = "<img src=x onerror=window.hacked=1>"
    for name, tag in ((hostile, "a"), ("x" * 200, "b")):
        start("pass", nproc=1, name=name, tag={"team": tag}).wait(60)
    lab.go(page)
    sidebar = open_sidebar(page)
    rows = sidebar.locator("li[data-run]")
    expect(rows).to_have_count(2)
    expect(sidebar.get_by_text(hostile)).to_be_visible()
    assert page.evaluate("() => window.hacked") is None
    long = rows.nth(0).bounding_box()
    assert long is not None
    assert long["width"] < 400
    sidebar.get_by_role("searchbox").fill("onerror")
    expect(rows).to_have_count(1)
    sidebar.get_by_role("searchbox").fill("nothing like it")
    sidebar.get_by_text("Show all").click()
    sidebar.get_by_role("combobox", name="Tag").select_option("team=b")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("xxxx")


def test_a_run_that_fails_is_told_of(lab: Lab, page: Page) -> None:
    lab.go(page)
    open_sidebar(page)
    expect(page.locator('[data-notice="no-runs"]')).to_be_visible()
    run = start("import time; time.sleep(3); raise ValueError('no luck')", nproc=1, name="unlucky")
    expect(page.locator(f'li[data-run="{run.id}"]')).to_be_visible()
    told = page.locator(".Toastify__toast")
    expect(told).to_contain_text("unlucky has failed", timeout=30_000)
    told.get_by_role("button", name="Show").click()
    expect(page.locator(f'#jtrain-panel .jp-JtrainRun[data-run-id="{run.id}"]')).to_contain_text("no luck")


def test_a_lost_connection_is_said_and_comes_back(lab: Lab, page: Page) -> None:
    run = train(epochs=400, pause_s=0.02)
    lab.go(page)
    sidebar = open_sidebar(page)
    row = sidebar.locator(f'li[data-run="{run.id}"]')
    expect(row).to_contain_text("running")
    lab.stop()
    strip = sidebar.locator('[data-notice="lost"]')
    expect(strip).to_contain_text("No connection to the server since")
    expect(row).to_contain_text("running")  # the last figures stay
    lab.start()
    # The page tries by itself as well, and JupyterLab's own dialog may lie over the button.
    page.evaluate("""() => document.querySelector('[data-notice="lost"] button')?.click()""")
    expect(strip).to_have_count(0, timeout=30_000)
    run.stop()
    expect(row).to_contain_text("stopped", timeout=30_000)


def test_a_server_without_the_extension_is_named(tmp_path: Path, own_store: Path, page: Page) -> None:
    config = tmp_path / "JUPYTER_CONFIG_DIR"
    config.mkdir()
    off = {"ServerApp": {"jpserver_extensions": {"jtrain": False}}}
    (config / "jupyter_server_config.json").write_text(json.dumps(off))
    with running_lab(tmp_path) as lab:
        lab.go(page)
        sidebar = open_sidebar(page)
        missing = sidebar.locator('[data-notice="missing"]')
        expect(missing).to_contain_text("jupyter server extension enable jtrain")


def test_where_a_proxy_cuts_websockets_figures_are_fetched_instead(lab: Lab, page: Page) -> None:
    run = train(epochs=400, pause_s=0.02)
    page.route_web_socket(re.compile("jtrain/api/stream"), lambda socket: socket.close())
    lab.go(page)
    sidebar = open_sidebar(page)
    expect(sidebar.locator('[data-notice="polling"]')).to_contain_text("a proxy may cut websockets")
    row = sidebar.locator(f'li[data-run="{run.id}"]')
    expect(row).to_contain_text("running")
    expect(sidebar.get_by_role("meter", name="Memory")).to_be_visible()
    run.stop()
    expect(row).to_contain_text("stopped", timeout=30_000)
