"""The live view in a real JupyterLab: seen, used, and gone from what is saved but for its summary."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.cells import TRAINING
from tests.ui.conftest import Lab

pytestmark = pytest.mark.timeout(180)
MAGIC = "%%jtrain --nproc 2 --gpus none --seed 1 --name live\n"
SLOW = MAGIC + TRAINING.replace("EPOCHS", "60").replace("PAUSE_S", "0.02")
VIEW = ".jtrain-live"


def keep(page: Page, name: str) -> None:
    """Save a screenshot where `$JTRAIN_SCREENSHOTS` says, for a person to look at."""
    if folder := os.environ.get("JTRAIN_SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def open_and_run(lab: Lab, page: Page, *cells: str) -> None:
    lab.write("train.ipynb", "%load_ext jtrain", *cells)
    lab.open(page, "train.ipynb")
    lab.run_all(page)


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_a_running_cell_shows_progress_and_ends_as_a_summary_with_a_plot(lab: Lab, page: Page, theme: str) -> None:
    lab.write("train.ipynb", "%load_ext jtrain", SLOW)
    lab.open(page, "train.ipynb")
    page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
    lab.run_all(page)
    view = page.locator(VIEW)
    expect(view).to_contain_text("running", timeout=30_000)
    expect(view.get_by_role("progressbar")).to_have_attribute("aria-valuenow", re.compile(r"[1-9]"))
    keep(page, f"live-{theme.split()[-1].lower()}")
    expect(page.locator(".jp-OutputArea img")).to_be_visible(timeout=90_000)
    expect(view).to_have_count(0)
    expect(page.locator(".jp-OutputArea").last).to_contain_text("finished")
    keep(page, f"summary-{theme.split()[-1].lower()}")


def test_pause_in_the_view_pauses_and_resume_goes_on(lab: Lab, page: Page) -> None:
    open_and_run(lab, page, SLOW)
    view = page.locator(VIEW)
    expect(view).to_contain_text("running", timeout=30_000)
    view.get_by_role("button", name="Pause").click()
    expect(page.locator(".jp-OutputArea").last).to_contain_text("%jtrain resume", timeout=60_000)


def test_other_widgets_answer_while_a_cell_waits(lab: Lab, page: Page) -> None:
    button = (
        "import ipywidgets\nbutton = ipywidgets.Button(description='press')\n"
        "button.on_click(lambda _: setattr(button, 'description', 'pressed'))\nbutton"
    )
    open_and_run(lab, page, button, SLOW)
    expect(page.locator(VIEW)).to_contain_text("running", timeout=30_000)
    page.locator(".jupyter-button", has_text="press").click()
    expect(page.locator(".jupyter-button", has_text="pressed")).to_be_visible()


def test_the_saved_notebook_holds_summary_and_plot_and_no_widget(lab: Lab, page: Page) -> None:
    open_and_run(lab, page, MAGIC + TRAINING.replace("EPOCHS", "3").replace("PAUSE_S", "0.05"))
    expect(page.locator(".jp-OutputArea img")).to_be_visible(timeout=90_000)
    page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    saved = json.loads((lab.root / "train.ipynb").read_text())
    kinds = [set(output.get("data", {})) for output in saved["cells"][1]["outputs"]]
    assert any("image/png" in kind for kind in kinds)
    assert not any("application/vnd.jupyter.widget-view+json" in kind for kind in kinds)
