"""Moving a series of a million points in headless Chromium: jtrain's chart beside uPlot without decimation.

    python benchmarks/pan.py [--points 1000000] [--frames 300]

Needs a Chromium (`$JTRAIN_CHROMIUM` or on the PATH), Node, and `jlpm install` in extension/. Both draw 800 by 300
pixels and are moved in every animation frame, back and forth over the whole series, while a tenth, half and all but a
hundredth of it is shown. The table has the frames per second, the 95th percentile of the time from frame to frame, and
that of the scripts' work in a frame. Bounds: at least 50 frames a second, 95th percentile at most 20 ms. Ends with 1
when missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).resolve().parent
MIN_FRAMES_PER_S = 50.0
MAX_FRAME_MS = 20.0
PARTS = (0.1, 0.5, 0.99)
FLAGS = ["--no-sandbox", "--disable-quic", "--disable-background-networking", "--no-first-run"]


def percentile95(values: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(values, n=20)[-1]


def bundle(folder: Path) -> Path:
    """The page's script, made of the extension's own sources. Raises CalledProcessError without node modules."""
    subprocess.run(["node", str(HERE / "page" / "rspack.config.js"), str(folder)], check=True)
    return folder / "pan.js"


def measure(page: Page, way: str, points: int, part: float, frames: int) -> tuple[float, float, float]:
    """Frames per second, and the 95th percentiles of frame and work in ms."""
    result: dict[str, Any] = page.evaluate(f"([n, part, frames]) => {way}(n, part, frames)", [points, part, frames])
    if result["draws"] < 0.9 * len(result["gaps"]) * min(1.0, 16.0 / statistics.median(result["gaps"])):
        raise AssertionError(f"{way} drew only {result['draws']} times in {len(result['gaps'])} frames")
    return 1000 * len(result["gaps"]) / sum(result["gaps"]), percentile95(result["gaps"]), percentile95(result["work"])


def main() -> int:
    """Print the table; 1 when a bound was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--frames", type=int, default=300)
    options = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        script = bundle(Path(folder))
        path = os.environ.get("JTRAIN_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1000, "height": 500})
        page.set_content("<!doctype html><body></body>")
        page.add_script_tag(path=str(script))
        print(f"{options.points:,} points, {options.frames} frames each, {os.cpu_count()} CPUs")
        print(f"{'chart':<22}{'shown':>7}{'frames/s':>10}{'p95 frame':>11}{'p95 work':>10}")
        for part in PARTS:
            for way, name in (("panJtrain", "jtrain"), ("panPlain", "uPlot, all points")):
                rate, frame_ms, work_ms = measure(page, way, options.points, part, options.frames)
                print(f"{name:<22}{part:>7.0%}{rate:>10.1f}{frame_ms:>8.1f} ms{work_ms:>7.1f} ms")
                if way == "panJtrain":
                    missed |= rate < MIN_FRAMES_PER_S or frame_ms > MAX_FRAME_MS
        browser.close()
    verdict = "MISSED" if missed else "kept"
    print(f"bounds for jtrain: {MIN_FRAMES_PER_S:.0f} frames/s or more, p95 {MAX_FRAME_MS:.0f} ms or less: {verdict}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
