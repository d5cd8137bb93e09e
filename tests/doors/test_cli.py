"""The program `jtrain`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import jtrain
from jtrain import cli
from jtrain.cli import main
from jtrain.errors import LaunchError
from jtrain.run import last_run
from tests.cells import TRAINING
from tests.doors.stores import make_run
from tests.doors.test_programs import CELLS, outputs, write

pytestmark = pytest.mark.timeout(180)

SCRIPT = "import sys\nfrom jtrain import Run\nprint(__name__, sys.argv[1:], int(__import__('os').environ['RANK']))\n"
ENDLESS = TRAINING.replace("EPOCHS", "5000").replace("PAUSE_S", "0.01").replace(
    "    run.step(loss)\n", "    run.step(loss)\n    if run.global_step == 2: print('training', flush=True)\n"
)  # fmt: skip


def program(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jtrain", *words], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_script_runs_on_all_ranks_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "train me.py").write_text(SCRIPT)
    done = program("run", "train me.py", "--nproc", "2", "--gpus", "none", "--", "--lr", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "__main__ ['--lr', '3'] 0"
    assert done.stdout.splitlines()[1].endswith(": finished")
    assert last_run().logs(rank=1) == "__main__ ['--lr', '3'] 1\n"


def test_a_failing_script_shows_its_lines_and_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("x = 1\nraise ValueError('no good')\n")
    done = program("run", "bad.py", "--gpus", "none", cwd=tmp_path)
    assert done.returncode == 1
    assert "----> 2 raise ValueError('no good')" in done.stderr
    assert (
        done.stdout.count("no good") + done.stderr.count("ValueError: no good") == 2
    )  # the summary's reason, the error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "say what to run"),
        (["run", "trian.py"], "did you mean train.py?"),
        (["run", "train.py", "--nproc", "0"], "--nproc 0: it must be at least 1"),
        (["run", "train.py", "--precison", "bf16"], "did you mean --precision?"),
        (["run", "train.py", "3"], "jtrain run train.py -- 3"),
        (["stauts"], "did you mean status?"),
        (["train.py"], "did you mean jtrain run train.py?"),
        (["logs", "nope"], "there are no runs"),
        (["run", "training.ipynb", "--nproc", "2"], "whose options stand in the cells"),
    ],
)
def test_wrong_usage_is_told_and_ends_with_2(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    write(tmp_path / "training.ipynb", *CELLS)
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_hints_name_commands_of_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    make_run()
    assert main(["resume"]) == 1
    assert "%jtrain" not in capsys.readouterr().err


def test_verbs_are_commands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(log="hello\n", metrics={"loss": [2.0, 1.0]})
    monkeypatch.chdir(tmp_path)
    assert main(["logs"]) == 0
    assert capsys.readouterr().out == "hello\n"
    assert main(["plot"]) == 0
    assert (tmp_path / "brisk-otter-7.png").read_bytes().startswith(b"\x89PNG")
    assert main(["clean", "brisk-otter-7"]) == 2
    assert "--yes" in capsys.readouterr().err


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "compare" in capsys.readouterr().out
    assert main(["run", "--help"]) == 0
    assert "--checkpoint-every" in capsys.readouterr().out
    assert main(["clean", "--help"]) == 0
    assert "--older-than" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert main([]) == 2


def test_windows_is_told_about_wsl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli.sys, "platform", "win32")
    assert main(["runs"]) == 2
    assert "WSL" in capsys.readouterr().err
    with pytest.raises(LaunchError, match="WSL"):
        jtrain.load_ipython_extension(None)


@pytest.mark.parametrize(("interrupts", "code", "state"), [(1, 75, "paused"), (2, 130, "stopped")])
def test_an_interrupt_pauses_and_a_second_one_stops(interrupts: int, code: int, state: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("from accelerate import Accelerator\n" + ENDLESS)
    started = subprocess.Popen(
        [sys.executable, "-m", "jtrain", "run", str(script), "--nproc", "2", "--gpus", "none"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "training\n"
    for _ in range(interrupts):
        started.send_signal(signal.SIGINT)
        time.sleep(0.05)
    out, err = started.communicate(timeout=60)
    assert started.returncode == code, (out, err)
    assert last_run().state == state
    assert "jtrain resume" in err


def test_a_notebook_with_a_training_cell_runs_headless_into_a_copy(tmp_path: Path) -> None:
    path = write(tmp_path / "training.ipynb", *CELLS)
    done = program("run", path.name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "step 4\n" in done.stdout
    assert not outputs(path)
    assert len(outputs(tmp_path / "training.executed.ipynb")) == 4
    assert "widgets" not in (tmp_path / "training.executed.ipynb").read_text()


def test_a_failing_notebook_ends_with_1_and_its_copy_shows_why(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.ipynb", CELLS[0], "%%jtrain --nproc 1 --gpus none\n1 / 0", "print('after')")
    done = program("run", path.name, "--output", "out/copy.ipynb", cwd=tmp_path)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "after" not in done.stdout
    assert outputs(tmp_path / "out" / "copy.ipynb")[-1]["ename"] == "WorkerError"


def test_an_interrupt_reaches_the_notebooks_run(tmp_path: Path) -> None:
    path = write(tmp_path / "training.ipynb", CELLS[0], f"%%jtrain --nproc 2 --gpus none\n{ENDLESS}")
    started = subprocess.Popen(
        [sys.executable, "-m", "jtrain", "run", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "training\n"
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 75, (out, err)
    assert last_run().state == "paused"


def test_a_notebook_without_a_training_cell_is_a_script(tmp_path: Path) -> None:
    path = write(tmp_path / "plain.ipynb", "x = 1", "print('x is', x, __import__('os').environ['WORLD_SIZE'])")
    done = program("run", path.name, "--nproc", "2", "--gpus", "none", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "x is 1 2"


def test_background_prints_the_id_and_attach_shows_the_run(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('hello')")
    done = program("run", "a.py", "--gpus", "none", "--background", cwd=tmp_path)
    run_id = done.stdout.strip()
    shown = program("attach", run_id)
    assert shown.returncode == 0, shown.stderr
    assert "finished" in shown.stdout


def test_a_reader_that_goes_away_is_no_error() -> None:
    make_run(log="line\n" * 200_000)
    command = f"{sys.executable} -m jtrain logs | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False, env=os.environ)
    assert (done.stdout, done.stderr) == ("line\n", "")
