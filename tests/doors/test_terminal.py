"""IPython in a terminal, without Jupyter."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from jtrain.run import last_run
from tests.cells import TRAINING

pytestmark = pytest.mark.timeout(180)

_ENDLESS = TRAINING.replace("EPOCHS", "5000").replace("PAUSE_S", "0.01")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[pexpect.spawn]:
    words = ["-m", "IPython", "--simple-prompt", "--colors=NoColor", "--no-banner", "--no-confirm-exit"]
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path), "TERM": "xterm"}
    shell = pexpect.spawn(sys.executable, words, env=environment, encoding="utf-8", timeout=60, dimensions=(40, 120))
    shell.expect_exact("In [1]: ")
    shell.sendline("%load_ext jtrain")
    shell.expect_exact("In [2]: ")
    yield shell
    shell.sendline("exit")
    shell.expect(pexpect.EOF, timeout=20)
    shell.close()


def send_cell(shell: pexpect.spawn, *lines: str) -> None:
    for line in (*lines, "", ""):  # without line editing, two empty lines end a cell
        shell.sendline(line)


@pytest.mark.parametrize("autoawait", ["asyncio", "off"])
def test_a_cell_trains_with_a_line_of_progress_and_a_text_summary(terminal: pexpect.spawn, autoawait: str) -> None:
    terminal.sendline(f"%autoawait {autoawait}")
    terminal.expect_exact("In [3]: ")
    send_cell(
        terminal, "%%jtrain --nproc 2 --gpus none -o size", "import time; time.sleep(1); print('hello')", "size = 2"
    )
    terminal.expect(r"\r\x1b\[2K\S+  running")
    terminal.expect_exact("hello")
    terminal.expect(r"run \S+: finished")
    terminal.expect_exact("In [4]: ")
    terminal.sendline("size + 40")
    terminal.expect_exact("42")


def test_an_interrupt_pauses(terminal: pexpect.spawn) -> None:
    (Path(os.environ["JTRAIN_HOME"]) / "train.py").write_text(_ENDLESS)
    cell = Path(os.environ["JTRAIN_HOME"], "cell.ipy")
    cell.write_text(f"get_ipython().run_cell_magic('jtrain', '--nproc 2 --gpus none', {_ENDLESS!r})\n")
    terminal.sendline(f"%run '{cell}'")
    terminal.expect(r"step \d+/")
    terminal.sendintr()
    terminal.expect("is paused at step")
    assert last_run().state == "paused"


def test_an_error_shows_the_cells_line(terminal: pexpect.spawn) -> None:
    send_cell(terminal, "%%jtrain --nproc 1 --gpus none", "x = 1", "x / 0")
    terminal.expect(r"Cell In\[2\], line 3")
    terminal.expect_exact("----> 3 x / 0")
    assert re.search("ZeroDivisionError", terminal.before) or terminal.expect_exact("ZeroDivisionError") == 0


def test_a_verb_prints_text(terminal: pexpect.spawn) -> None:
    terminal.sendline("%jtrain runs")
    terminal.expect_exact("there are no runs")
