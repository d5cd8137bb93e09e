"""The extension as a part of JupyterLab: addresses, language, palette, settings, status bar, keyboard, reload."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from jtrain.store.choice import read_choice
from tests.cells import start, train
from tests.ui.conftest import Lab, running_lab
from tests.ui.runview import SIDEBAR, chart, num_points, open_large, open_run, open_sidebar, plot, wait_for_points

pytestmark = pytest.mark.timeout(240)
LOGGING = """
import time
for number in range(600):
    run.log({"value": float(number)}, step=number)
    print("line", number, flush=True)
    time.sleep(0.01)
"""
MESSAGES_BEFORE_A_LOSS = 9
NAMELESS = """panel => [...panel.querySelectorAll('button, input, select, [tabindex="0"], [role=meter], [role=img]')]
    .filter(element => element.offsetParent && !(element.getAttribute('aria-label')
        || element.getAttribute('aria-labelledby') || element.textContent.trim() || element.labels?.length))
    .map(element => element.outerHTML.slice(0, 200))"""
FOCUSED = """() => {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    const isMarked = style.outlineStyle !== 'none' || style.boxShadow !== 'none';
    const label = element.labels?.[0]?.textContent ?? '';
    const name = element.getAttribute('aria-label') || element.textContent.trim() || label || element.tagName;
    return [element.closest('#jtrain-panel') !== null, isMarked, name];
}"""


@pytest.fixture
def gpu_lab(tmp_path: Path, own_store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """Two simulated GPUs."""
    monkeypatch.setenv("JTRAIN_SIMULATE_GPUS", "2")
    with running_lab(tmp_path) as lab:
        yield lab


def write_settings(folder: Path, plugin: str, **settings: object) -> None:
    """The user's settings of a plugin, `package:name`, for a lab that isn't running yet."""
    package, _, name = plugin.partition(":")
    place = folder / "settings" / package
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.jupyterlab-settings").write_text(json.dumps(settings))


def test_below_a_prefix_everything_is_found(
    tmp_path: Path, own_store: Path, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JTRAIN_SIMULATE_GPUS", "2")
    run = train(epochs=2, nproc=1, name="far away")
    run.wait(60)
    with running_lab(tmp_path, base="/user/someone/proxy/8889") as lab:
        lab.go(page)
        sidebar = open_sidebar(page)
        sidebar.locator(".jp-JtrainTile-choose").first.click()
        expect(sidebar.get_by_text("1 device chosen")).to_be_visible()
        view = open_run(page, run.id)
        wait_for_points(page, view, "loss", 32)
        expect(sidebar.locator(".jp-JtrainStrip")).to_have_count(0)
    assert len(read_choice(own_store)) == 1


def test_messages_lost_on_the_way_are_neither_missing_nor_there_twice(lab: Lab, page: Page) -> None:
    num_losses = 0

    def relay(socket: WebSocketRoute) -> None:
        server, num_messages = socket.connect_to_server(), 0

        def pass_on(message: str | bytes) -> None:
            nonlocal num_messages, num_losses
            num_messages += 1
            if num_messages % MESSAGES_BEFORE_A_LOSS:
                socket.send(message)
            else:
                num_losses += 1

        server.on_message(pass_on)

    page.route_web_socket(re.compile("jtrain/api/stream"), relay)
    lab.go(page)
    run = start(LOGGING, {"__name__": "__main__"}, nproc=1)
    view = open_large(page, run.id)
    run.wait(60)
    wait_for_points(page, view, "value", 600, timeout_s=60)
    assert num_losses > 3, "the connection was to be disturbed"
    expect(view.locator(".jp-JtrainBadge")).to_have_attribute("data-state", "finished", timeout=30_000)
    assert num_points(view, "value") == 600
    log = view.locator(".jp-JtrainLog")
    log.get_by_role("searchbox").fill("line ")
    expect(log.get_by_role("status")).to_have_text(re.compile(r" / 600$"), timeout=30_000)


@pytest.fixture
def chinese_pack(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A language pack of JupyterLab without a word: it offers a language only when there is one."""
    folder = tmp_path_factory.mktemp("pack")
    messages = folder / "chinese_pack" / "locale" / "zh_CN" / "LC_MESSAGES"
    messages.mkdir(parents=True)
    (folder / "chinese_pack" / "__init__.py").touch()
    about = {"domain": "jupyterlab", "language": "zh-CN", "plural_forms": "nplurals=1; plural=0;"}
    (messages / "jupyterlab.json").write_text(json.dumps({"": about}))
    record = folder / "chinese_pack-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: chinese-pack\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text("[jupyterlab.languagepack]\nzh_CN = chinese_pack\n")
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


def test_the_words_are_those_of_the_users_language(
    chinese_pack: None, tmp_path: Path, own_store: Path, page: Page
) -> None:
    write_settings(tmp_path, "@jupyterlab/translation-extension:plugin", locale="zh_CN")
    with running_lab(tmp_path) as lab:
        lab.go(page)
        sidebar = open_sidebar(page)
        expect(sidebar.locator('[data-notice="no-gpu"] > p')).to_have_text(re.compile(r"^此处没有 GPU"))
        expect(sidebar.get_by_text("设备", exact=True)).to_be_visible()
        assert re.findall(r"[A-Z][a-z]+ [a-z]+", sidebar.inner_text()) == [], "some words are still English"


def test_the_panel_stands_on_the_side_that_the_settings_name(tmp_path: Path, own_store: Path, page: Page) -> None:
    write_settings(tmp_path, "jtrain:panel", side="left", smoothing=0.5)
    run = train(epochs=1, nproc=1)
    run.wait(60)
    with running_lab(tmp_path) as lab:
        lab.go(page)
        view = open_run(page, run.id)
        assert page.evaluate("() => [...jupyterapp.shell.widgets('left')].some(widget => widget.id === 'jtrain-panel')")
        expect(view.locator('[data-control="smoothing"]')).to_have_value("0.5")


def test_palette_and_status_bar_lead_to_runs_and_a_reload_shows_them_again(lab: Lab, page: Page) -> None:
    chosen, tab = (train(epochs=1, nproc=1, name=name) for name in ("in the sidebar", "in a tab"))
    for run in (chosen, tab):
        run.wait(60)
    lab.go(page)
    status = page.get_by_role("button", name="Training:")
    expect(status).to_have_text("Training: no run")
    status.click()
    expect(page.locator(SIDEBAR)).to_be_visible()
    open_run(page, chosen.id)
    page.keyboard.press("Control+Shift+C")
    palette = page.locator(".lm-CommandPalette")
    palette.get_by_role("textbox").or_(palette.get_by_role("searchbox")).first.fill("Open a Training Run")
    page.keyboard.press("Enter")
    dialog = page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("Which run?")
    option = dialog.locator("option", has_text=tab.id)
    dialog.locator("select").select_option(option.get_attribute("value") or option.inner_text())
    dialog.get_by_role("button", name="Ok").click()
    opened = page.locator(f'[id="jtrain-run-{tab.id}"] .jp-JtrainRun')
    wait_for_points(page, opened, "loss", 16)
    page.wait_for_timeout(2000)  # JupyterLab keeps the layout a second after it has changed
    page.reload()
    page.wait_for_function("() => window.jupyterapp")
    page.evaluate("async () => { await jupyterapp.restored; }")
    expect(opened).to_be_visible()
    expect(page.locator(f'{SIDEBAR} .jp-JtrainRun[data-run-id="{chosen.id}"]')).to_contain_text("in the sidebar")


def test_the_keyboard_reaches_everything_in_its_order_and_all_has_a_name(gpu_lab: Lab, page: Page) -> None:
    run = train(epochs=2, nproc=1, name="reached", tag={"team": "a"})
    run.wait(60)
    gpu_lab.write("empty.ipynb", "1")
    gpu_lab.open(page, "empty.ipynb")  # without a document JupyterLab's launcher comes up late and takes the focus
    sidebar = open_sidebar(page)
    wait_for_points(page, open_run(page, run.id), "loss", 32)
    assert sidebar.evaluate(NAMELESS) == []
    sidebar.locator(".jp-JtrainTile-choose").first.focus()
    page.keyboard.press("Tab")  # from now on the focus is shown
    page.keyboard.press("Shift+Tab")
    names: list[str] = []
    is_inside = True
    while is_inside and len(names) < 60:
        is_inside, is_marked, name = page.evaluate(FOCUSED)
        if is_inside:
            names.append(name)
            assert is_marked, f"the focus can't be seen on {name}"
        page.keyboard.press("Tab")
    wanted = ["GPU 0", "GPU 1", "Search runs", "State", "Tag", "reached", "Open large", "Step", "Log", "Compare"]
    wanted += ["Smoothing", "loss", "Search the log"]
    places = [next((place for place, name in enumerate(names) if word in name), -1) for word in wanted]
    assert -1 not in places, f"{wanted[places.index(-1)]} is not among {names}"
    assert places == sorted(places), names


def test_the_axis_is_logarithmic_curves_are_smoothed_and_one_cursor_is_in_all_charts(lab: Lab, page: Page) -> None:
    lab.write("empty.ipynb", "1")
    lab.open(page, "empty.ipynb")
    run = train(epochs=60, pause_s=0.01, nproc=1)
    run.wait(60)
    view = open_large(page, run.id)
    wait_for_points(page, view, "loss", 480 * 2)
    canvas = plot(view, "loss").locator("canvas")

    def picture() -> str:
        page.wait_for_timeout(300)
        return str(plot(view, "loss").locator("canvas").evaluate("canvas => canvas.toDataURL()"))

    plain = picture()
    view.locator('[data-control="log"]').click()
    expect(view.locator('[data-control="log"]')).to_have_attribute("aria-pressed", "true")
    logarithmic = picture()
    assert logarithmic != plain
    view.locator('[data-control="log"]').click()
    view.locator('[data-control="smoothing"]').fill("0.9")
    smooth = picture()
    assert smooth not in (plain, logarithmic)
    expect(canvas).to_be_visible()
    chart(view, "loss").locator(".u-over").hover(position={"x": 100, "y": 60})
    place = chart(view, "loss").locator(".jp-JtrainChart-place")
    expect(place).to_contain_text("step")
    for other in ("Load", "Memory"):
        figure = view.locator(f'[data-chart="{other}"]')
        expect(figure.locator(".jp-JtrainChart-place")).to_have_text(place.inner_text())
