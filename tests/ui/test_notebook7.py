"""The sidebar in Notebook 7, where a page holds one document."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from jtrain.run import runs
from tests.ui.conftest import running_lab
from tests.ui.runview import SIDEBAR, open_large, open_sidebar, wait_for_points

pytest.importorskip("notebook", minversion="7", reason="Notebook 7 isn't installed")
pytestmark = pytest.mark.timeout(240)
CELL = (
    "%%jtrain --nproc 1 --gpus none --name seven\nfor step in range(100):\n    run.log(loss=1 / (step + 1), step=step)"
)


def test_a_run_is_watched_opened_large_and_leads_back_to_its_cell(tmp_path: Path, own_store: Path, page: Page) -> None:
    with running_lab(tmp_path, program="notebook") as lab:
        lab.write("train.ipynb", "%load_ext jtrain", CELL, "1")
        page.goto(f"{lab.url}/notebooks/train.ipynb?token={lab.token}")
        page.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel")
        lab.run_all(page)
        sidebar = open_sidebar(page)
        row = sidebar.locator("li[data-run]")
        expect(row).to_contain_text("finished", timeout=60_000)
        (run,) = runs()
        large = open_large(page, run.id)
        wait_for_points(page, large, "loss", 100)
        box = large.bounding_box()
        assert box
        assert box["height"] > 200, "there is room to see it"
        page.evaluate("() => { jupyterapp.shell.currentWidget.content.activeCellIndex = 2; }")
        large.locator('[data-action="open-notebook"]').click()
        page.wait_for_function("() => jupyterapp.shell.currentWidget?.content?.activeCellIndex === 1")
        expect(page.locator(".jp-CodeCell").nth(1)).to_contain_text("--name seven")
        assert len(page.context.pages) == 1
        expect(page.locator(SIDEBAR)).to_be_visible()
