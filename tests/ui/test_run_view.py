"""One run in a real JupyterLab: its curves, its logs, its checkpoints, while it runs and afterwards."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from jtrain.run import Run, runs
from tests.cells import TRAINING, start, train
from tests.ui.conftest import Lab
from tests.ui.runview import (
    axis_ends,
    chart,
    drag,
    num_points,
    open_large,
    open_run,
    open_sidebar,
    plot,
    wait_for_points,
)

pytestmark = pytest.mark.timeout(240)
MAGIC = "%%jtrain --nproc 2 --gpus none --seed 1 --name live\n"
SLOW = MAGIC + TRAINING.replace("EPOCHS", "40").replace("PAUSE_S", "0.05")
ODD = """
import math
for step in range(40):
    value = math.nan if step == 10 else math.inf if step == 20 else 1 / (step + 1)
    run.log({"train/odd": value}, step=step)
"""
LONG = """
for step in range(30_000):
    run.log({"long": step}, step=step)
"""
HOSTILE = r"""
print("\x1b[31mred\x1b[0m </script><img src=x onerror=window.hacked=1> \x1b]0;title\x07\x1b[2Kend")
print(f"this is rank {run.rank}")
for number in range(300):
    print("line", number)
"""


def launched(page: Page) -> str:
    """The id of the run that the page has launched."""
    deadline = time.monotonic() + 60
    while not (found := runs()):
        assert time.monotonic() < deadline, "no run appeared in the store"
        page.wait_for_timeout(100)
    return found[0].id


def finished(run: Run) -> Run:
    """`run`, ended."""
    run.wait(120)
    assert run.state == "finished"
    return run


@pytest.fixture
def page_of_lab(lab: Lab, page: Page) -> Page:
    """JupyterLab with an empty notebook."""
    lab.write("empty.ipynb", "1")
    lab.open(page, "empty.ipynb")
    return page


def test_the_loss_grows_live_while_the_kernel_is_busy(lab: Lab, page: Page) -> None:
    lab.write("train.ipynb", "%load_ext jtrain", SLOW)
    lab.open(page, "train.ipynb")
    lab.run_all(page)
    run = launched(page)
    view = open_run(page, run)
    wait_for_points(page, view, "loss", 5, timeout_s=90)
    before = num_points(view, "loss")
    wait_for_points(page, view, "loss", before + 20)
    expect(page.locator(".jp-CodeCell .jp-InputArea-prompt").nth(1)).to_have_text("[*]:")
    expect(view.get_by_role("progressbar")).to_have_attribute("aria-valuenow", re.compile(r"\d"))
    expect(plot(view, "loss")).to_have_attribute("aria-label", re.compile(r"last .*lowest .*highest"))
    view.locator('[data-action="pause"]').click()
    expect(view.locator(".jp-JtrainBadge")).to_have_attribute("data-state", "paused", timeout=60_000)


def test_a_curve_is_zoomed_moved_and_shown_whole_again(page_of_lab: Page) -> None:
    run = finished(train(epochs=10))
    view = open_large(page_of_lab, run.id)
    wait_for_points(page_of_lab, view, "loss", 80)
    over = chart(view, "loss").locator(".u-over")
    whole = axis_ends(view, "loss")
    drag(page_of_lab, over, 0.25, 0.75)
    page_of_lab.wait_for_timeout(200)
    zoomed = axis_ends(view, "loss")
    width = whole[1] - whole[0]
    assert zoomed[1] - zoomed[0] == pytest.approx(width / 2, rel=0.05)
    drag(page_of_lab, over, 0.3, 0.5, shift=True)
    page_of_lab.wait_for_timeout(200)
    moved = axis_ends(view, "loss")
    assert moved[1] - moved[0] == pytest.approx(zoomed[1] - zoomed[0])
    assert moved[0] == pytest.approx(zoomed[0] - width * 0.1, abs=width * 0.02)
    plot(view, "loss").focus()
    page_of_lab.keyboard.press("+")
    page_of_lab.wait_for_timeout(200)
    nearer = axis_ends(view, "loss")
    assert nearer[1] - nearer[0] < moved[1] - moved[0]
    over.dblclick()
    page_of_lab.wait_for_timeout(200)
    assert axis_ends(view, "loss") == whole
    view.get_by_role("radio", name="Time").click()
    page_of_lab.wait_for_timeout(300)
    assert axis_ends(view, "loss") != whole


def test_a_zoom_into_a_long_curve_fetches_what_was_left_out(page_of_lab: Page) -> None:
    run = finished(start(LONG, {"__name__": "__main__"}, nproc=1))
    view = open_large(page_of_lab, run.id)
    wait_for_points(page_of_lab, view, "long", 30_000)
    with page_of_lab.expect_response(re.compile(r"metrics\?.*from=")) as fetched:
        drag(page_of_lab, chart(view, "long").locator(".u-over"), 0.5, 0.52)
    (series,) = fetched.value.json()["series"]
    assert series["is_whole"]
    start_step, end_step = axis_ends(view, "long")
    assert series["steps"][0] <= start_step
    assert series["steps"][-1] >= end_step
    page_of_lab.wait_for_timeout(300)
    chart(view, "long").locator(".u-over").hover()
    shown = float(chart(view, "long").locator(".jp-JtrainLegend-value").inner_text())
    assert shown == int(shown), "the value of a step, which is the step itself"
    assert start_step <= shown <= end_step


def test_another_run_is_laid_over_and_taken_away(page_of_lab: Page) -> None:
    other = finished(train(epochs=2, name="<img src=x onerror=window.hacked=1>"))
    run = finished(train(epochs=3, name="mine"))
    view = open_large(page_of_lab, run.id)
    wait_for_points(page_of_lab, view, "loss", 24)
    view.locator('[data-control="compare"]').click()
    view.locator(f'[data-overlay="{other.id}"]').check()
    page_of_lab.keyboard.press("Escape")
    legend = chart(view, "loss").locator(".jp-JtrainLegend-entry")
    expect(legend).to_have_count(2)
    expect(legend.last).to_contain_text("<img src=x onerror=window.hacked=1>")
    legend.last.click()
    expect(legend.last).to_have_attribute("aria-pressed", "false")
    view.locator('[data-control="compare"]').click()
    view.locator(f'[data-overlay="{other.id}"]').uncheck()
    expect(legend).to_have_count(1)
    assert page_of_lab.evaluate("() => window.hacked") is None


def test_a_log_is_filtered_by_rank_searched_and_shown_as_text(page_of_lab: Page) -> None:
    run = finished(start(HOSTILE, {"__name__": "__main__"}))
    log = open_large(page_of_lab, run.id).locator(".jp-JtrainLog")
    expect(log).to_contain_text("line 299")
    log.get_by_role("searchbox").fill("</script>")
    expect(log.get_by_role("status")).to_have_text("1 / 1")
    line = log.locator(".jp-mod-current")
    expect(line).to_have_text("red </script><img src=x onerror=window.hacked=1> end")
    expect(line.locator("span").first).to_have_css("color", re.compile(r"rgb"))
    log.locator('[data-control="rank"]').select_option("1")
    log.get_by_role("searchbox").fill("this is rank")
    expect(log.locator(".jp-mod-current")).to_have_text("this is rank 1")
    assert page_of_lab.evaluate("() => window.hacked") is None


def test_values_that_are_not_finite_are_marked_and_counted(page_of_lab: Page) -> None:
    run = finished(start(ODD, {"__name__": "__main__"}, nproc=1))
    view = open_large(page_of_lab, run.id)
    wait_for_points(page_of_lab, view, "train/odd", 40)
    expect(chart(view, "train/odd")).to_contain_text("1 NaN · 1 infinite")
    expect(plot(view, "train/odd")).to_have_attribute("aria-label", re.compile("40 values, 1 NaN, 1 infinite"))


def test_a_run_resumes_from_a_checkpoint_after_asking(page_of_lab: Page) -> None:
    run = train(epochs=200, pause_s=0.05)
    view = open_large(page_of_lab, run.id)
    wait_for_points(page_of_lab, view, "loss", 5, timeout_s=60)
    view.locator('[data-action="pause"]').click()
    expect(view.locator(".jp-JtrainBadge")).to_have_attribute("data-state", "paused", timeout=60_000)
    view.locator('[data-part="checkpoints"] h3 button').click()
    resume = view.locator('[data-action="resume-from"]').first
    resume.click()
    dialog = page_of_lab.locator(".jp-Dialog")
    expect(dialog).to_contain_text("Resume from step")
    dialog.get_by_role("button", name="Cancel").click()
    assert run.state == "paused"
    before = num_points(view, "loss")
    resume.click()
    dialog.get_by_role("button", name="Resume").click()
    expect(view.locator(".jp-JtrainBadge")).to_have_attribute("data-state", "running", timeout=60_000)
    wait_for_points(page_of_lab, view, "loss", before + 5, timeout_s=60)
    run.stop()
    run.wait(60)


def test_a_deleted_run_keeps_its_last_figures(page_of_lab: Page, own_store: Path) -> None:
    run = finished(train(epochs=2, nproc=1))
    view = open_large(page_of_lab, run.id)
    wait_for_points(page_of_lab, view, "loss", 32)
    (folder,) = [path for path in own_store.rglob(run.id) if path.is_dir()]
    folder.rename(own_store.parent / "gone")
    expect(view.locator('[data-notice="gone"]')).to_be_visible(timeout=30_000)
    assert num_points(view, "loss") == 32


def test_the_chart_saves_its_points_and_a_picture(page_of_lab: Page, tmp_path: Path) -> None:
    run = finished(train(epochs=2, nproc=1, name="saved"))
    view = open_large(page_of_lab, run.id)
    wait_for_points(page_of_lab, view, "loss", 32)
    chart(view, "loss").hover()
    with page_of_lab.expect_download() as table:
        chart(view, "loss").get_by_role("button", name="CSV").click()
    table.value.save_as(tmp_path / "table.csv")
    rows = (tmp_path / "table.csv").read_text().splitlines()
    assert rows[0] == "run,metric,step,time,value"
    assert [float(row.split(",")[-1]) for row in rows[1:]] == pytest.approx(list(run.metrics["loss"]))
    with page_of_lab.expect_download() as picture:
        chart(view, "loss").get_by_role("button", name="PNG").click()
    picture.value.save_as(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_sidebar_lists_a_run_without_metrics_kindly(page_of_lab: Page) -> None:
    run = finished(start("pass", {"__name__": "__main__"}, nproc=1))
    open_sidebar(page_of_lab)
    view = open_run(page_of_lab, run.id)
    expect(view.locator('[data-notice="empty"]')).to_contain_text("no metric")
