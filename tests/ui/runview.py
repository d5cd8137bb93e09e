"""How tests open a run in the sidebar and read what its charts show."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page, expect

SIDEBAR = "#jtrain-panel"


def open_sidebar(page: Page) -> Locator:
    """The sidebar, opened."""
    page.evaluate("() => jupyterapp.shell.activateById('jtrain-panel')")
    sidebar = page.locator(SIDEBAR)
    expect(sidebar).to_be_visible()
    return sidebar


def open_run(page: Page, run: str) -> Locator:
    """The view of the run `run` in the sidebar."""
    open_sidebar(page).locator(f'[data-run="{run}"]').click()
    view = page.locator(f'{SIDEBAR} .jp-JtrainRun[data-run-id="{run}"]')
    expect(view).to_be_visible()
    return view


def open_large(page: Page, run: str) -> Locator:
    """The view of the run `run` in the main area."""
    open_run(page, run).locator('[data-action="open-large"]').click()
    view = page.locator(f'[id="jtrain-run-{run}"] .jp-JtrainRun')
    expect(view).to_be_visible()
    return view


def chart(view: Locator, metric: str) -> Locator:
    """The chart of a metric, scrolled to."""
    found = view.locator(f'[data-chart="{metric}"]')
    found.scroll_into_view_if_needed()
    return found


def plot(view: Locator, metric: str) -> Locator:
    """What of a chart is drawn on."""
    return chart(view, metric).locator(".jp-JtrainChart-plot")


def num_points(view: Locator, metric: str) -> int:
    """How many points the chart of a metric has drawn."""
    return int(plot(view, metric).get_attribute("data-points") or 0)


def wait_for_points(page: Page, view: Locator, metric: str, count: int, timeout_s: float = 30) -> None:
    """Wait until the chart of a metric has drawn `count` points or more."""
    element = plot(view, metric).element_handle()
    page.wait_for_function(
        "([element, count]) => Number(element.dataset.points ?? 0) >= count",
        arg=[element, count],
        timeout=1000 * timeout_s,
    )


def axis_ends(view: Locator, metric: str) -> tuple[float, float]:
    """First and last of what a chart shows of its horizontal axis."""
    ends: list[Any] = plot(view, metric).evaluate("element => [element.dataset.from, element.dataset.to].map(Number)")
    return float(ends[0]), float(ends[1])


def drag(page: Page, over: Locator, start: float, end: float, *, shift: bool = False) -> None:
    """Drag over an element from one part of its width to another."""
    box = over.bounding_box()
    assert box
    height = box["y"] + box["height"] / 2
    if shift:
        page.keyboard.down("Shift")
    page.mouse.move(box["x"] + start * box["width"], height)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], height, steps=6)
    page.mouse.up()
    if shift:
        page.keyboard.up("Shift")
