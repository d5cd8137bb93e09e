"""What the sidebar shows of odd machines and of very many runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.cells import start
from tests.doors.stores import make_run
from tests.ui.conftest import Lab, running_lab
from tests.ui.runview import open_sidebar

pytestmark = pytest.mark.timeout(240)
GPU = {"name": "Fake H200", "load": 37, "memory_used": 5 << 30, "memory_total": 100 << 30, "temperature": 50}
QUIET = GPU | {"power_error": "NVML_ERROR_NOT_SUPPORTED", "load_error": "NVML_ERROR_NOT_SUPPORTED"}
SLICED = GPU | {"power": 90, "slices": [{"memory_used": 1 << 30, "memory_total": 10 << 30}, None]}
NUM_RUNS = 5000


class Machine:
    """The devices that the driver tells of; they can change at any time."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def show(self, *gpus: dict[str, Any]) -> None:
        aside = self.file.with_suffix(".new")
        aside.write_text(json.dumps({"gpus": gpus}))
        aside.rename(self.file)


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path_factory.mktemp("driver") / "gpus.json")
    machine.show(GPU)
    monkeypatch.setenv("JTRAIN_SIMULATE_GPUS", str(machine.file))
    return machine


@pytest.fixture
def gpu_lab(machine: Machine, tmp_path: Path, own_store: Path) -> Iterator[Lab]:
    with running_lab(tmp_path) as lab:
        yield lab


def until(page: Page, condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        page.wait_for_timeout(100)


def test_what_a_gpu_does_not_say_is_not_shown_as_nothing(gpu_lab: Lab, machine: Machine, page: Page) -> None:
    machine.show(QUIET, GPU | {"power": 300})
    gpu_lab.go(page)
    tiles = open_sidebar(page).locator(".jp-JtrainTile")
    expect(tiles).to_have_count(2)
    quiet, usual = tiles.nth(0), tiles.nth(1)
    expect(quiet.get_by_role("meter", name="Load")).to_have_attribute("aria-valuetext", "n/a")
    expect(quiet.get_by_role("meter", name="Memory")).to_have_attribute("aria-valuetext", "5 GiB / 100 GiB")
    expect(quiet).to_contain_text("n/a W")
    expect(quiet.get_by_text("n/a W")).to_have_attribute("title", "Power: this GPU or its driver doesn't report it")
    expect(quiet).to_contain_text("50 °C")
    expect(usual).to_contain_text("300 W")


def test_a_gpu_that_falls_off_the_bus_says_so_and_the_others_stay_live(
    gpu_lab: Lab, machine: Machine, page: Page
) -> None:
    machine.show(GPU, GPU)
    gpu_lab.go(page)
    tiles = open_sidebar(page).locator(".jp-JtrainTile")
    expect(tiles).to_have_count(2)
    tiles.nth(0).get_by_role("button").first.click()
    machine.show({"error": "NVML_ERROR_GPU_IS_LOST"}, GPU | {"load": 99})
    expect(tiles.nth(0)).to_contain_text("This device has stopped answering", timeout=30_000)
    expect(tiles.nth(1).get_by_role("meter", name="Load")).to_have_attribute("aria-valuetext", "99 %")
    chosen = tiles.nth(0).get_by_role("button").first
    chosen.click()  # a lost device can be given up, and not be chosen again
    expect(chosen).to_have_attribute("aria-pressed", "false")
    expect(chosen).to_be_disabled()


def test_slices_of_a_gpu_are_devices_of_their_own(gpu_lab: Lab, machine: Machine, page: Page) -> None:
    machine.show(SLICED, GPU)
    gpu_lab.go(page)
    tiles = open_sidebar(page).locator(".jp-JtrainTile")
    expect(tiles).to_have_count(2)
    part = tiles.nth(0)
    expect(part.locator(".jp-JtrainTile-label")).to_have_text("MIG slice 0:0")
    expect(part.get_by_role("meter", name="Memory")).to_have_attribute("aria-valuetext", "1 GiB / 10 GiB")
    part.get_by_role("button").first.click()
    expect(part.get_by_role("button").first).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("count", [1, 16])
def test_any_number_of_devices_fits_into_the_sidebar(gpu_lab: Lab, machine: Machine, page: Page, count: int) -> None:
    long = "An Accelerator With A Very Long Name 141GB HBM3e"
    machine.show(*[GPU | {"name": long, "power": 90 + index} for index in range(count)])
    gpu_lab.go(page)
    sidebar = open_sidebar(page)
    tiles = sidebar.locator(".jp-JtrainTile")
    expect(tiles).to_have_count(count)
    panel = sidebar.bounding_box()
    assert panel
    boxes = [tile.bounding_box() for tile in tiles.all()]
    for place, box in enumerate(boxes):
        assert box
        assert panel["x"] <= box["x"]
        assert box["x"] + box["width"] <= panel["x"] + panel["width"]
        for other in boxes[:place]:
            assert other
            is_beside = box["x"] >= other["x"] + other["width"] or other["x"] >= box["x"] + box["width"]
            assert is_beside or box["y"] >= other["y"] + other["height"], "tiles lie over one another"


def test_thousands_of_runs_are_listed_scrolled_and_searched(lab: Lab, page: Page) -> None:
    for number in range(NUM_RUNS):
        make_run(f"many-run-{number}", created=1e9 + number, name=f"trial {number}")
    lab.go(page)
    sidebar = open_sidebar(page)
    rows = sidebar.locator("li[data-run]")
    expect(rows.first).to_have_attribute("aria-setsize", str(NUM_RUNS), timeout=60_000)
    expect(rows.first).to_contain_text(f"trial {NUM_RUNS - 1}")
    assert rows.count() < 100, "only those in sight are rendered"
    sidebar.locator(".jp-JtrainRuns-list").evaluate("list => list.scrollTo(0, list.scrollHeight)")
    expect(sidebar.get_by_text("trial 0", exact=True)).to_be_visible()
    sidebar.get_by_role("searchbox").fill("trial 2345")
    expect(rows).to_have_count(1)
    expect(rows.first).to_be_visible()
    assert rows.first.get_attribute("data-run") == "many-run-2345"


def test_what_is_on_its_way_is_said(lab: Lab, page: Page) -> None:
    page.route_web_socket("**/jtrain/api/stream*", lambda socket: None)  # open, and silent
    lab.go(page)
    sidebar = open_sidebar(page)
    expect(sidebar.get_by_text("Looking at the machine")).to_be_visible()
    expect(sidebar.get_by_text("Loading the runs")).to_be_visible()


def test_a_waiting_run_gets_another_place_in_the_line(lab: Lab, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JTRAIN_CPU_SLOTS", "1")
    body = "import time\ntime.sleep(PAUSE_S)"
    first = start(body, {"PAUSE_S": 120.0, "__name__": "__main__"}, nproc=1, name="first")
    until(page, lambda: first.state == "running", "the first run doesn't begin")
    second = start(body, {"PAUSE_S": 0.0, "__name__": "__main__"}, nproc=1, name="second")
    lab.go(page)
    sidebar = open_sidebar(page)
    row = sidebar.locator(f'li[data-run="{second.id}"]')
    expect(row).to_contain_text("queued")
    row.get_by_role("button").first.click()
    view = sidebar.locator(f'.jp-JtrainRun[data-run-id="{second.id}"]')
    for place, priority in ((row, 5), (view, 7)):
        place.hover()
        place.locator('[data-action="priority"]').click()
        dialog = page.locator(".jp-Dialog")
        expect(dialog).to_contain_text("Priority of second")
        dialog.get_by_role("spinbutton").fill(str(priority))
        dialog.get_by_role("button", name="Ok").click()
        until(page, lambda wanted=priority: second.standing.priority == wanted, "the priority isn't changed")
    first.stop()
    assert second.wait(60) == "finished"
    expect(row).to_contain_text("finished")
