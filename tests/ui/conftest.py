"""A real JupyterLab, a real Chromium."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import nbformat
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
_READY = """async () => {
    const app = jupyterapp;
    const pause = () => new Promise(resolve => setTimeout(resolve, 100));
    await app.restored;
    for (let i = 0; i < 300 && !app.shell.currentWidget?.sessionContext; i++) await pause();
    const widget = app.shell.currentWidget;
    await widget.context.ready;
    await widget.sessionContext.ready;
    const kernel = widget.sessionContext.session.kernel;
    await kernel.info;
    for (let i = 0; i < 300 && kernel.status !== 'idle'; i++) await pause();
}"""


_FOLDERS = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")


@dataclass
class Lab:
    """A running JupyterLab whose root folder is `root`; what else it keeps is in `folder`.

    `program` is the Python module that serves: `jupyterlab`, or `notebook` for Notebook 7. `base` is the path below
    which it serves, without a slash at its end, and `url` ends with it.
    """

    program: str
    port: int
    base: str
    token: str
    root: Path
    folder: Path
    _log: IO[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.base}"

    def write(self, name: str, *cells: str) -> None:
        """Put a notebook of code cells into the root folder."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.root / name)

    def open(self, page: Page, name: str) -> None:
        """Open the notebook `name` and wait until its kernel is idle."""
        page.goto(f"{self.url}/lab/tree/{name}?token={self.token}&reset")
        page.wait_for_function("() => window.jupyterapp")
        page.evaluate(_READY)

    def run_all(self, page: Page) -> None:
        """Run all cells of the notebook; returns at once."""
        page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells'); }")

    def start(self) -> None:
        """Start the server; after `stop` it has the same address again."""
        self._server = subprocess.Popen(
            [
                sys.executable,
                *("-m", self.program, "--no-browser", "--allow-root", "--expose-app-in-browser"),
                f"--ServerApp.port={self.port}",
                f"--ServerApp.base_url={self.base}/",
                "--ServerApp.ip=127.0.0.1",
                "--ServerApp.port_retries=0",
                f"--IdentityProvider.token={self.token}",
                f"--ServerApp.root_dir={self.root}",
                f"--LabApp.workspaces_dir={self.folder / 'workspaces'}",
                f"--LabApp.user_settings_dir={self.folder / 'settings'}",
            ],
            env={**os.environ, **{name: str(self.folder / name) for name in _FOLDERS}},
            stdout=self._log,
            stderr=self._log,
        )
        _wait_for(f"{self.url}/api/status?token={self.token}", self._server)

    def stop(self) -> None:
        """End the server, and its kernels with it."""
        self._server.terminate()
        self._server.wait(timeout=30)

    def go(self, page: Page) -> None:
        """Open JupyterLab without a notebook."""
        page.goto(f"{self.url}/lab?token={self.token}&reset")
        page.wait_for_function("() => window.jupyterapp")
        page.evaluate("async () => { await jupyterapp.restored; }")


@contextlib.contextmanager
def running_lab(folder: Path, base: str = "", program: str = "jupyterlab") -> Iterator[Lab]:
    """A JupyterLab (or Notebook 7) that keeps everything below `folder`, its configuration too."""
    root = folder / "notebooks"
    root.mkdir()
    settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with open(folder / "server.log", "wb") as log:
        lab = Lab(program, port, base, secrets.token_hex(16), root, folder, log)
        lab.start()
        try:
            yield lab
        finally:
            lab.stop()


@pytest.fixture
def lab(tmp_path: Path, own_store: Path) -> Iterator[Lab]:
    with running_lab(tmp_path) as lab:
        yield lab


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert server.poll() is None, "JupyterLab ended at once"
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("JupyterLab did not start")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = os.environ.get("JTRAIN_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.set_default_timeout(30_000)
    yield page
    context.close()
