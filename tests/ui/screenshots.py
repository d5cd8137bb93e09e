"""Takes pictures of the sidebar and the widgets in all their states, light and dark, for a person to look at.

    python tests/ui/screenshots.py FOLDER [SCENE …]

Each scene is a function below; it gets a fresh JupyterLab and a page. GPUs in the pictures are simulated, and say so.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[2]))

from jtrain.run import Run
from jtrain.store.runs import RunStore
from tests.cells import TRAINING, start, train
from tests.doors.stores import make_run
from tests.ui.conftest import CHROMIUM_FLAGS, Lab, running_lab
from tests.ui.runview import open_large, open_run, open_sidebar, wait_for_points

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark", "contrast": "JupyterLab Dark High Contrast"}
CURVES = """
import math, random, time
numbers = random.Random(SEED)
for step in range(STEPS):
    loss = 2.3 * math.exp(-step / 300) + 0.12 + 0.05 * numbers.random()
    run.log({"train/loss": loss, "train/lr": 1e-3 * (1 - step / STEPS)}, step=step)
    if step % 50 == 49:
        run.log({"val/loss": loss * 1.08, "val/acc": 1 - loss / 2.6}, step=step)
        print(f"\\x1b[32mstep {step + 1}\\x1b[0m loss {loss:.4f}")
    time.sleep(PAUSE_S)
"""
ODD = r"""
import math
for step in range(100):
    value = math.nan if step % 30 == 10 else math.inf if step == 50 else 1 / (step + 1)
    run.log({"train/odd": value, "train/even": step / 100, "val/acc": 1 - 1 / (step + 2)}, step=step)
    print(f"\x1b[1;3{step % 8}mstep {step}\x1b[0m of rank {run.rank} \x1b[7m{value:.4f}\x1b[0m")
run.checkpoint()
"""
CELL = "%%jtrain --nproc 2 --gpus none --seed 1 --name digits --checkpoint-every 50steps\n" + TRAINING.replace(
    "EPOCHS", "100"
).replace("PAUSE_S", "0.02")

Shoot = Callable[[str], None]
Scene = Callable[[Lab, Page, Shoot], None]


def curves(name: str, steps: int = 1500, seed: int = 1, pause_s: float = 0.0, **options: object) -> Run:
    """A run with metrics as trainings have them."""
    variables = {"STEPS": steps, "SEED": seed, "PAUSE_S": pause_s, "__name__": "__main__"}
    return start(CURVES, variables, nproc=1, name=name, **options)


def nothing_yet(lab: Lab, page: Page, shoot: Shoot) -> None:
    """No GPU, no run."""
    os.environ.pop("JTRAIN_SIMULATE_GPUS")
    lab.stop()
    lab.start()
    lab.go(page)
    sidebar = open_sidebar(page)
    for notice in ("no-gpu", "no-runs"):
        sidebar.locator(f'[data-notice="{notice}"]').wait_for()
    shoot("nothing-yet")


def loading(lab: Lab, page: Page, shoot: Shoot) -> None:
    """A server that has said nothing yet."""
    page.route_web_socket("**/jtrain/api/stream*", lambda socket: None)
    lab.go(page)
    open_sidebar(page).get_by_text("Loading the runs").wait_for()
    shoot("loading")


def missing(lab: Lab, page: Page, shoot: Shoot) -> None:
    """A server without the extension."""
    config = lab.folder / "JUPYTER_CONFIG_DIR"
    config.mkdir(exist_ok=True)
    off = {"ServerApp": {"jpserver_extensions": {"jtrain": False}}}
    (config / "jupyter_server_config.json").write_text(json.dumps(off))
    lab.stop()
    lab.start()
    lab.go(page)
    open_sidebar(page).locator('[data-notice="missing"]').wait_for()
    shoot("missing")


def training(lab: Lab, page: Page, shoot: Shoot) -> None:
    """A notebook that trains, and everything about it in the sidebar."""
    for index in range(3):
        curves(f"earlier-{index + 1}", seed=index, tag={"sweep": "lr"}).wait(60)
    start("raise ValueError('labels must be below 10')", nproc=1, name="broken").wait(60)
    lab.write("digits.ipynb", "%load_ext jtrain", CELL)
    lab.open(page, "digits.ipynb")
    sidebar = open_sidebar(page)
    lab.run_all(page)
    row = sidebar.locator("li[data-run]", has_text="digits")
    row.wait_for(timeout=60_000)
    row.get_by_role("button").first.click()
    wait_for_points(page, sidebar.locator(".jp-JtrainRun"), "loss", 150)
    page.mouse.move(400, 400)
    shoot("training")
    run = Run(row.get_attribute("data-run") or "")
    open_large(page, run.id)
    page.wait_for_timeout(1500)
    shoot("run-large")
    run.stop()
    run.wait(30)


def many(lab: Lab, page: Page, shoot: Shoot) -> None:
    """Sixteen GPUs, a long name, a name that looks like HTML, a waiting run."""
    os.environ["JTRAIN_SIMULATE_GPUS"] = "16"
    lab.stop()
    lab.start()
    curves("<img src=x onerror=alert(1)>").wait(60)
    curves("a very long name " * 11).wait(60)
    lab.go(page)
    open_sidebar(page).locator(".jp-JtrainTile").nth(15).wait_for()
    page.locator(".jp-JtrainTile-choose").nth(2).click()
    page.wait_for_timeout(2500)
    shoot("many")


def odd_devices(lab: Lab, page: Page, shoot: Shoot) -> None:
    """A GPU that says little, one in slices, one that is lost, in a narrow window."""
    state = lab.folder / "gpus.json"
    usual = {"load": 37, "memory_used": 5 << 30, "memory_total": 80 << 30, "temperature": 50, "power": 300}
    quiet = usual | {f"{name}_error": "NVML_ERROR_NOT_SUPPORTED" for name in ("load", "power", "temperature")}
    sliced = usual | {"slices": [{"memory_used": 1 << 30, "memory_total": 10 << 30}, None]}
    state.write_text(json.dumps({"gpus": [quiet, sliced, usual, usual]}))
    os.environ["JTRAIN_SIMULATE_GPUS"] = str(state)
    lab.stop()
    lab.start()
    page.set_viewport_size({"width": 800, "height": 1000})
    lab.go(page)
    tiles = open_sidebar(page).locator(".jp-JtrainTile")
    tiles.nth(3).wait_for()
    state.write_text(json.dumps({"gpus": [quiet, sliced, usual, {"error": "NVML_ERROR_GPU_IS_LOST"}]}))
    page.locator('.jp-JtrainTile[data-lost="true"]').wait_for()
    page.evaluate("() => jupyterapp.commands.execute('application:toggle-left-area')")
    tiles.nth(3).scroll_into_view_if_needed()
    shoot("odd-devices")
    tiles.nth(0).scroll_into_view_if_needed()
    shoot("odd-devices-top")


def odd_curves(lab: Lab, page: Page, shoot: Shoot) -> None:
    """NaN and infinity in a series, a log with colours, checkpoints."""
    run = start(ODD, {"__name__": "__main__"}, nproc=2, name="odd", checkpoint_every="20steps")
    run.wait(60)
    lab.go(page)
    view = open_large(page, run.id)
    wait_for_points(page, view, "train/odd", 100)
    view.locator('[data-part="checkpoints"] h3 button').click()
    view.locator('[data-part="events"] h3 button').click()
    view.locator(".jp-JtrainRun-header").scroll_into_view_if_needed()
    page.wait_for_timeout(1500)
    shoot("odd-curves")
    view.locator('[data-part="events"] h3').scroll_into_view_if_needed()
    shoot("odd-curves-below")


def thousands(lab: Lab, page: Page, shoot: Shoot) -> None:
    """Very many runs."""
    states = ("finished", "failed", "paused", "stopped")
    for number in range(2000):
        make_run(
            f"many-run-{number}", created=time.time() - 3600 * number, name=f"trial {number}", state=states[number % 4]
        )
    lab.go(page)
    list_ = open_sidebar(page).locator(".jp-JtrainRuns-list")
    list_.wait_for(timeout=60_000)
    list_.evaluate("list => list.scrollTo(0, list.scrollHeight / 2)")
    page.wait_for_timeout(1500)
    shoot("thousands")


def overlaid(lab: Lab, page: Page, shoot: Shoot) -> None:
    """Several runs in one chart."""
    made = [curves(f"lr-{10.0**-seed:g}", seed=seed) for seed in (2, 3, 4)]
    for run in made:
        run.wait(60)
    lab.go(page)
    view = open_large(page, made[0].id)
    view.get_by_role("button", name="Compare").click()
    page.wait_for_timeout(500)
    for box in view.get_by_role("checkbox").all()[:2]:
        box.click()
    page.keyboard.press("Escape")
    page.wait_for_timeout(1500)
    shoot("overlaid")


def troubles(lab: Lab, page: Page, shoot: Shoot) -> None:
    """A failed run, a deleted run, a lost connection."""
    failed = start("raise ValueError('labels must be below 10')", nproc=2, name="broken")
    failed.wait(60)
    doomed = curves("doomed")
    doomed.wait(60)
    lab.go(page)
    open_run(page, failed.id)
    page.wait_for_timeout(1000)
    shoot("failed")
    open_run(page, doomed.id)
    page.wait_for_timeout(1000)
    RunStore().remove(doomed.id)
    page.wait_for_timeout(1500)
    shoot("deleted")
    lab.stop()
    page.locator('[data-notice="lost"]').first.wait_for()
    shoot("lost")
    lab.start()


def live(lab: Lab, page: Page, shoot: Shoot) -> None:
    """A run that is followed in a narrow sidebar."""
    run = train(epochs=300, pause_s=0.01, name="followed")
    lab.go(page)
    wait_for_points(page, open_run(page, run.id), "loss", 200)
    shoot("followed")
    run.stop()
    run.wait(30)


SCENES: tuple[Scene, ...] = (
    *(nothing_yet, loading, missing, training, many, odd_devices, odd_curves, thousands, overlaid, troubles, live),
)


def take(scene: Scene, theme: str, folder: Path, browser: Browser) -> None:
    """The pictures of one scene in one theme."""
    with tempfile.TemporaryDirectory() as name:
        store = Path(name) / "store"
        os.environ |= {
            "JTRAIN_HOME": str(store),
            "JTRAIN_MACHINE_DIR": f"{name}/machine",
            "JTRAIN_SIMULATE_GPUS": "4",
            "OMP_NUM_THREADS": "1",
        }
        with running_lab(Path(name)) as lab:
            settings = Path(name) / "settings" / "@jupyterlab" / "apputils-extension"
            (settings / "themes.jupyterlab-settings").write_text(f'{{"theme": "{THEMES[theme]}"}}')
            page = browser.new_context(viewport={"width": 1440, "height": 1000}).new_page()
            page.set_default_timeout(30_000)
            scene(lab, page, lambda title: _keep(page, folder / f"{title}-{theme}.png"))
            page.context.close()


def _keep(page: Page, file: Path) -> None:
    page.screenshot(path=str(file))
    print(file)


def main(folder: Path, wanted: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = os.environ.get("JTRAIN_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        for scene in SCENES:
            for theme in THEMES:
                if not wanted or scene.__name__ in wanted:
                    take(scene, theme, folder, browser)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/screenshots"), sys.argv[2:])
