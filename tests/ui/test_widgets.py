"""The widgets in a real JupyterLab: devices are chosen, a run is launched, watched and paused, all by hand."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from jtrain.domain.devices import SIMULATED_PREFIX
from jtrain.store.choice import read_choice, write_choice
from jtrain.verbs.answers import find_run
from tests.ui.conftest import Lab

pytestmark = pytest.mark.timeout(180)
THEMES = ["JupyterLab Light", "JupyterLab Dark"]
UUIDS = [f"{SIMULATED_PREFIX}0000-0000-0000-{index:012d}" for index in range(4)]
TRAIN = """
import time, torch
from torch.utils.data import DataLoader, TensorDataset
import jtrain

def train(epochs, lr=0.01, run=None):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=4)
    model, optimizer, loader = run.prepare(model, optimizer, loader)
    for given, wanted in run.batches(loader, epochs=epochs):
        loss = torch.nn.functional.mse_loss(model(given), wanted)
        run.step(loss)
        time.sleep(0.02)
    run.print("trained")
"""


def keep(page: Page, name: str) -> None:
    """Save a screenshot where `$JTRAIN_SCREENSHOTS` says, for a person to look at."""
    if folder := os.environ.get("JTRAIN_SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def open_and_run(lab: Lab, page: Page, *cells: str, theme: str = THEMES[0]) -> None:
    lab.write("widgets.ipynb", "%load_ext jtrain", *cells)
    lab.open(page, "widgets.ipynb")
    if theme != THEMES[0]:
        page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
    lab.run_all(page)


def tile(page: Page, index: int) -> Locator:
    return page.locator(f'.jtrain-tile[data-device="{UUIDS[index]}"]')


@pytest.fixture
def four_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set before the lab is started, whose kernels inherit it."""
    monkeypatch.setenv("JTRAIN_SIMULATE_GPUS", "4")


@pytest.mark.parametrize("theme", THEMES)
def test_devices_are_chosen_by_click_and_by_key(
    four_gpus: None, lab: Lab, page: Page, own_store: Path, theme: str
) -> None:
    open_and_run(lab, page, "import jtrain\npicker = jtrain.GPUPicker()\npicker", theme=theme)
    expect(page.locator(".jtrain-tile")).to_have_count(4, timeout=30_000)
    expect(page.locator(".jtrain-mark", has_text="simulated")).to_have_count(4)
    tile(page, 2).click()
    expect(tile(page, 2)).to_have_attribute("aria-pressed", "true")
    tile(page, 2).press("ArrowLeft")
    expect(tile(page, 1)).to_be_focused()
    tile(page, 1).press("Space")
    expect(tile(page, 1)).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".jtrain-choice")).to_have_text("--gpus picker: GPU 2, GPU 1")
    assert read_choice(own_store) == [UUIDS[2], UUIDS[1]]
    page.mouse.move(5, 5)
    keep(page, f"picker-{theme.split()[-1].lower()}")
    tile(page, 2).click()
    expect(tile(page, 2)).to_have_attribute("aria-pressed", "false")
    assert read_choice(own_store) == [UUIDS[1]]


def test_the_picker_is_live_and_follows_the_choice_made_elsewhere(
    four_gpus: None, lab: Lab, page: Page, own_store: Path
) -> None:
    open_and_run(lab, page, "import jtrain\njtrain.GPUPicker()")
    expect(page.locator(".jtrain-tile")).to_have_count(4, timeout=30_000)
    before = page.locator(".jtrain-tiles").inner_text()
    write_choice(own_store, [UUIDS[3]])
    expect(tile(page, 3)).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".jtrain-tiles")).not_to_have_text(before)


def test_a_picker_stays_live_in_a_page_that_is_loaded_again(four_gpus: None, lab: Lab, page: Page) -> None:
    open_and_run(lab, page, "import jtrain\njtrain.GPUPicker()")
    expect(page.locator(".jtrain-tile")).to_have_count(4, timeout=30_000)
    page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    lab.open(page, "widgets.ipynb")
    tile(page, 0).click()
    expect(tile(page, 0)).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".jtrain-silent")).to_be_hidden()


def test_a_kernel_that_is_gone_is_told(four_gpus: None, lab: Lab, page: Page) -> None:
    open_and_run(lab, page, "import jtrain\njtrain.GPUPicker()")
    expect(page.locator(".jtrain-tile")).to_have_count(4, timeout=30_000)
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    expect(page.locator(".jtrain-silent")).to_be_visible(timeout=15_000)


@pytest.mark.parametrize("theme", THEMES)
def test_without_a_gpu_the_picker_says_so_and_shows_the_cpu(lab: Lab, page: Page, theme: str) -> None:
    open_and_run(lab, page, "import jtrain\njtrain.GPUPicker()", theme=theme)
    expect(page.locator(".jtrain-empty")).to_contain_text("runs use the CPU", timeout=30_000)
    expect(page.locator(".jtrain-host")).to_contain_text("RAM")
    keep(page, f"picker-none-{theme.split()[-1].lower()}")


@pytest.mark.parametrize("theme", THEMES)
def test_a_run_is_launched_watched_paused_and_resumed(lab: Lab, page: Page, theme: str) -> None:
    launcher = "jtrain.Launcher(train, 400, lr=0.02, options={'gpus': 'none', 'nproc': 2, 'seed': 1})"
    open_and_run(lab, page, TRAIN, launcher, theme=theme)
    form = page.locator(".jtrain-launcher")
    form.get_by_label("name", exact=True).fill("by hand")
    expect(form.locator(".jtrain-command")).to_contain_text("--name 'by hand'", timeout=30_000)
    form.get_by_label("accumulate").fill("none")
    expect(form.get_by_role("alert")).to_contain_text("it takes a whole number")
    form.get_by_label("accumulate").fill("2")
    expect(form.get_by_role("alert")).to_be_hidden()
    keep(page, f"launcher-{theme.split()[-1].lower()}")
    form.get_by_role("button", name="Launch").click()
    view = page.locator(".jtrain-live")
    expect(view).to_contain_text("running", timeout=30_000)
    expect(view.get_by_role("progressbar")).to_have_attribute("aria-valuenow", re.compile(r"[1-9]"), timeout=30_000)
    keep(page, f"launcher-run-{theme.split()[-1].lower()}")
    view.get_by_role("button", name="Pause").click()
    expect(view.get_by_role("button", name="Resume")).to_be_visible(timeout=30_000)
    run = find_run("by hand")
    assert (run.shown_state, run.spec.options.accumulate, run.standing.devices) == ("paused", 2, ("CPU-0", "CPU-1"))
    keep(page, f"monitor-paused-{theme.split()[-1].lower()}")
    view.get_by_role("button", name="Resume").click()
    expect(view).to_contain_text("running", timeout=30_000)
    view.get_by_role("button", name="Stop").click()
    view.get_by_role("button", name="Really stop?").click()
    expect(view).to_contain_text("stopped", timeout=30_000)


@pytest.mark.parametrize("theme", THEMES)
def test_a_monitor_ends_as_a_still_summary(lab: Lab, page: Page, theme: str) -> None:
    launch = (
        "run = jtrain.launch(train, 10, gpus='none', seed=1, name='<img src=x onerror=alert(1)>')\njtrain.Monitor(run)"
    )
    open_and_run(lab, page, TRAIN, launch, theme=theme)
    expect(page.locator(".jtrain-live")).to_contain_text("<img src=x onerror=alert(1)>", timeout=30_000)
    expect(page.locator(".jp-OutputArea").last).to_contain_text("160 (10 epochs)", timeout=60_000)
    expect(page.locator(".jtrain-live")).to_have_count(0)
    expect(page.locator(".jp-OutputArea img")).to_be_visible()
    keep(page, f"monitor-still-{theme.split()[-1].lower()}")


def test_a_cell_is_launched_from_its_form(lab: Lab, page: Page) -> None:
    cell = "%%jtrain --launcher --gpus none --nproc 1 --name cell\nfor step in range(3):\n    run.log(x=step)"
    open_and_run(lab, page, cell)
    form = page.locator(".jtrain-launcher")
    expect(form).to_contain_text("Launch Cell In[2]", timeout=30_000)
    form.get_by_role("button", name="Launch").click()
    expect(page.locator(".jtrain-live")).to_contain_text("finished", timeout=30_000)
    assert find_run("cell").metrics.last("x") == 2


def test_a_mistake_in_the_wish_is_shown_in_words(lab: Lab, page: Page) -> None:
    open_and_run(lab, page, TRAIN, "jtrain.Launcher(train, 1)")
    form = page.locator(".jtrain-launcher")
    form.get_by_label("gpus", exact=True).select_option("all")
    form.get_by_role("button", name="Launch").click()
    expect(form.get_by_role("alert")).to_contain_text("no GPU can be seen on this machine", timeout=30_000)
    expect(form.get_by_role("button", name="Launch")).to_be_enabled()
