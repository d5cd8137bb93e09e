"""Whatever a cell raises arrives as a record with the user's own lines."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from jtrain.domain.states import State
from jtrain.errors import LaunchError, OptionError, WorkerError
from jtrain.run import runs
from jtrain.traceback_view import render_worker_error
from jtrain.worker.failure import Frames
from tests.cells import start

pytestmark = pytest.mark.timeout(60)


def error_of(source: str, nproc: int = 1) -> WorkerError:
    run = start(source, {"__name__": "__main__"}, nproc=nproc)
    assert run.wait(timeout=50) is State.FAILED, run.logs()
    error = run.error
    assert error is not None
    return error


def users_lines(error: WorkerError) -> list[tuple[str, int, str]]:
    return [(frame["file"], frame["line"], frame["text"]) for frame in error.frames if frame["user"]]


def test_the_cells_own_line_stands_first_with_its_number_in_the_notebook() -> None:
    error = error_of("import torch\n\ntorch.zeros(2) @ torch.zeros(3)")
    assert error.type_name == "RuntimeError"
    assert users_lines(error) == [("Cell In[1]", 4, "torch.zeros(2) @ torch.zeros(3)")]


def test_a_message_that_can_not_be_shown_does_not_hide_the_error() -> None:
    error = error_of("class Odd(Exception):\n    def __str__(self): raise KeyError('no')\nraise Odd")
    assert error.type_name == "Odd"
    assert "__str__ raised KeyError" in error.message


def test_a_recursion_of_a_thousand_calls_is_folded() -> None:
    error = error_of("def deeper(n): return deeper(n + 1)\ndeeper(0)")
    assert error.type_name == "RecursionError"
    assert len(error.frames) < 70
    assert any("more calls" in frame["text"] for frame in error.frames)


def test_an_exception_group_and_a_cause_are_told_in_full() -> None:
    error = error_of("raise ExceptionGroup('both', [ValueError('a'), KeyError('b')]) from OSError('disk')")
    assert error.type_name == "ExceptionGroup"
    for word in ("ValueError: a", "KeyError: 'b'", "OSError: disk"):
        assert word in error.traceback_text


def test_an_error_in_a_dataloader_worker_shows_the_datasets_line() -> None:
    error = error_of(
        "from torch.utils.data import DataLoader, Dataset\n"
        "class Bad(Dataset):\n"
        "    def __len__(self): return 4\n"
        "    def __getitem__(self, index): raise ValueError(f'sample {index} is bad')\n"
        "for batch in DataLoader(Bad(), num_workers=1): pass"
    )
    assert error.type_name == "ValueError"
    assert "sample 0 is bad" in error.message
    assert "line 5" in error.message


@pytest.mark.parametrize(
    ("line", "name"),
    [("raise KeyboardInterrupt", "KeyboardInterrupt"), ("raise SystemExit('that was it')", "SystemExit")],
)
def test_endings_by_exception_are_named(line: str, name: str) -> None:
    error = error_of(line)
    assert error.type_name == name


def test_code_75_of_a_program_is_no_pause() -> None:
    error = error_of("import sys; sys.exit(75)")
    assert error.type_name == "SystemExit"


def test_a_program_that_ends_itself_well_gives_back_what_it_has() -> None:
    run = start("out = 3\nraise SystemExit\nlater = 4", {}, nproc=1, outputs=("out", "later"))
    assert run.wait(timeout=50) is State.FINISHED
    assert run.outputs() == {"out": 3}


def test_a_message_with_half_a_character_arrives() -> None:
    error = error_of("open('/no/such/\\udcff')")
    assert error.type_name == "FileNotFoundError"
    assert "udcff" in error.message


def test_a_message_that_interrupts_does_not_hide_the_error() -> None:
    error = error_of("class Odd(Exception):\n    def __str__(self): raise KeyboardInterrupt\nraise Odd")
    assert error.type_name == "Odd"


def test_a_message_of_50_megabytes_is_cut() -> None:
    error = error_of("raise ValueError('begin' + 'x' * 50_000_000 + 'end')")
    assert len(error.message) < 100_000
    assert error.message.startswith("begin")
    assert error.message.endswith("end")
    assert len(error.traceback_text) < 200_000


def test_the_text_begins_with_the_users_first_line() -> None:
    error = error_of("def f():\n    {}['key']\nf()")
    lines = error.traceback_text.splitlines()
    assert lines[1].strip() == 'File "Cell In[1]", line 4, in <module>'
    assert "worker/main.py" not in error.traceback_text


def test_two_functions_that_call_each_other_for_ever_are_shown_from_the_first_call_to_the_last() -> None:
    error = error_of("def a(n): return b(n)\ndef b(n): return a(n)\na(0)")
    assert "line 4, in <module>" in error.traceback_text
    assert error.traceback_text.rstrip().splitlines()[-1].startswith("RecursionError")
    assert len(error.traceback_text.splitlines()) < 300


def test_libraries_in_the_working_folder_are_not_the_users_code() -> None:
    frames = Frames({"Cell In[1]"}, os.path.commonpath([sys.base_prefix, sys.prefix, __file__]) or "/")
    assert not frames.is_users(json.__file__)
    assert not frames.is_users(pytest.__file__)
    assert frames.is_users(__file__)


def test_an_output_that_the_cell_can_not_have_is_refused_before_it_trains() -> None:
    with pytest.raises(OptionError, match="did you mean 'model'"):
        start("model = 1", {}, nproc=1, outputs=("modle",))
    assert runs() == []


@pytest.mark.parametrize("source", ["from math import *", "exec('pi = 3')", "set_pi()"])
def test_an_output_may_get_its_name_where_it_can_not_be_seen(source: str) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("def set_pi():\n    global pi\n    pi = 3", namespace)
    run = start(source, namespace, nproc=1, outputs=("pi",))
    assert run.wait(timeout=50) is State.FINISHED, run.logs()
    assert int(run.outputs()["pi"]) == 3


def test_an_output_that_is_missing_at_the_end_does_not_take_the_others_along() -> None:
    run = start("model = 1\nmodle = 2\ndel modle", {}, nproc=1, outputs=("model", "modle"))
    assert run.wait(timeout=50) is State.FAILED
    assert "did you mean 'model'" in run.reason
    assert run.outputs() == {"model": 1}


def test_a_long_message_of_many_lines_is_a_short_reason() -> None:
    run = start(f"raise ValueError('first' + {'x' * 10_000!r} + '\\nsecond')", {}, nproc=1)
    assert run.wait(timeout=50) is State.FAILED
    assert run.reason.startswith("rank 0: ValueError: firstx")
    assert len(run.reason) < 400
    assert run.error is not None
    assert run.error.message.endswith("\nsecond")


def test_notes_on_an_exception_belong_to_its_message() -> None:
    error = error_of("error = ValueError('bad label')\nerror.add_note('in row 7')\nraise error")
    assert error.message == "bad label\nin row 7"


@pytest.mark.parametrize(("loss", "words"), [("weight * torch.ones(3)", r"shape (3,)"), ("weight.detach()", "no_grad")])
def test_a_loss_that_can_not_be_trained_on_is_refused_by_name(loss: str, words: str) -> None:
    error = error_of(
        "import torch\n"
        "weight = torch.nn.Parameter(torch.ones(()))\n"
        "optimizer = run.prepare(torch.optim.SGD([weight], lr=0.1))\n"
        f"run.step({loss})"
    )
    assert error.type_name == "ValueError"
    assert words in error.message


def test_a_working_folder_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").mkdir()
    os.chdir("gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(LaunchError, match="working folder was removed"):
        start("pass")


def test_log_names_what_it_takes_when_it_is_given_a_bare_number() -> None:
    error = error_of("run.log(0.5)")
    assert error.type_name == "TypeError"
    assert "run.log(loss=loss), not 0.5" in error.message


def test_a_value_that_can_not_leave_does_not_hold_back_the_others() -> None:
    run = start("import threading\nlock = threading.Lock()\nnumber = 3", {}, nproc=1, outputs=("lock", "number"))
    assert run.wait(timeout=50) is State.FINISHED
    assert run.outputs() == {"number": 3}
    assert "lock" in run.notices()[0]["text"]


def test_threads_and_exit_handlers_of_the_cell_do_not_hold_the_rank() -> None:
    run = start(
        "import atexit, threading, time\n"
        "threading.Thread(target=time.sleep, args=(300,)).start()\n"
        "atexit.register(print, 'the end')",
        {},
        nproc=1,
    )
    assert run.wait(timeout=30) is State.FINISHED
    assert "the end" in run.logs()


def test_rubbish_on_the_standard_streams_is_kept_and_shown_as_text() -> None:
    run = start(
        "import os, subprocess, sys\n"
        "os.write(1, b'\\xff\\xfe raw\\n')\n"
        "print('no newline', end='')\n"
        "sys.stdout.flush()\n"
        "subprocess.run(['sh', '-c', 'echo from a child; echo error >&2'])\n"
        "print('\\udc80 half a pair')",
        {},
        nproc=1,
    )
    assert run.wait(timeout=50) is State.FINISHED, run.error and run.error.traceback_text
    log = run.logs()
    for text in ("raw", "no newline", "from a child", "error", "half a pair"):
        assert text in log


def test_what_an_error_was_raised_from_is_shown_before_it() -> None:
    error = error_of("try:\n    1 / 0\nexcept ZeroDivisionError as first:\n    raise ValueError('outer') from first")
    assert [(cause["type"], cause["is_direct"]) for cause in error.causes] == [("ZeroDivisionError", True)]
    shown = "\n".join(render_worker_error(error, has_colors=False))
    places = [shown.index(part) for part in ("1 / 0", "ZeroDivisionError: ", "direct cause", "ValueError: outer")]
    assert places == sorted(places)
    hidden = error_of("try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('outer') from None")
    assert hidden.causes == []


@pytest.mark.parametrize("line", ["input('name? ')", "breakpoint()"])
def test_what_waits_for_a_keyboard_is_told_that_there_is_none(line: str) -> None:
    assert "nobody can type into a worker" in error_of(line).message
