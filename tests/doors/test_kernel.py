"""`%%jtrain` in a real kernel that no browser looks at, with real runs."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cells import TRAINING
from tests.doors.kernels import Notebook, start_kernel

pytestmark = pytest.mark.timeout(180)

TWO = "%%jtrain --nproc 2 --gpus none --seed 1"
ENDLESS = TRAINING.replace("EPOCHS", "5000").replace("PAUSE_S", "0.01").replace(
    "    run.step(loss)\n", "    run.step(loss)\n    if run.global_step == 2: print('training', flush=True)\n"
)  # fmt: skip


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with start_kernel(tmp_path_factory.mktemp("kernel störe 🚂")) as notebook:
        yield notebook


def run_id(text: str) -> str:
    return re.search(r"run ([a-z]+-[a-z]+-\d+)", text)[1]


def test_a_cell_trains_waits_and_leaves_output_summary_and_plot(notebook: Notebook) -> None:
    cell = TRAINING.replace("EPOCHS", "3").replace("PAUSE_S", "0")
    done = notebook.run(f"{TWO} -o model\n{cell}run.print('done')\n")
    assert (done.status, done.error) == ("ok", "")
    assert done.stdout == "done\n"
    assert re.match(r"run \S+: finished\n  devices +2 ranks on CPU\n  steps +24 \(3 epochs\)\n", done.texts[0])
    assert "text/html" in done.displays[0]
    assert "image/png" in done.displays[1]
    assert notebook.value("type(model).__name__") == "'Sequential'"


def test_nobody_looks_so_there_is_no_widget_and_nothing_is_taken_back(notebook: Notebook) -> None:
    done = notebook.run(f"{TWO}\nprint('hello')")
    assert not {"clear_output", "update_display_data"} & done.kinds
    assert not any("widget" in kind for data in done.displays for kind in data)


def test_the_kernel_serves_others_while_the_cell_waits(notebook: Notebook) -> None:
    notebook.run("import asyncio\nticks = []\nasync def tick():\n    while True:\n        ticks.append(1)\n"
                 "        await asyncio.sleep(0.01)\nticking = asyncio.ensure_future(tick())")  # fmt: skip
    before = int(notebook.value("len(ticks)"))
    notebook.run("%%jtrain --nproc 1 --gpus none\nimport time; time.sleep(1)")
    assert int(notebook.value("len(ticks)")) - before > 20
    notebook.run("ticking.cancel()")


def test_the_error_of_a_rank_is_shown_once_with_the_cells_lines(notebook: Notebook) -> None:
    failed = notebook.run(
        f"{TWO}\n\nlabels = [1]\nprint('before')\nif run.rank == 1:\n    labels[3]\nrun.accelerator.wait_for_everyone()"
    )
    assert (failed.status, failed.error) == ("error", "WorkerError")
    assert failed.stdout == "before\n"
    plain = re.sub(r"\x1b\[[\d;]*m", "", failed.traceback)
    assert re.search(r"IndexError +rank 1 of run", plain)
    assert re.search(r"Cell In\[\d+\], line 6\n.*\n.*\n----> 6     labels\[3\]\n", plain)
    assert plain.count("Traceback") == 0
    assert "IndexError: list index out of range" in plain


def test_an_error_of_rank_0_is_not_shown_a_second_time_as_output(notebook: Notebook) -> None:
    failed = notebook.run("%%jtrain --nproc 1 --gpus none\nprint('before')\n1 / 0")
    assert failed.stdout == "before\n"
    assert "ZeroDivisionError" in failed.traceback


def test_an_error_in_a_function_of_the_notebook_names_its_cell(notebook: Notebook) -> None:
    notebook.run("def check(x):\n    assert x > 1, 'too small'")
    failed = notebook.run("%%jtrain --nproc 1 --gpus none\ncheck(0)")
    plain = re.sub(r"\x1b\[[\d;]*m", "", failed.traceback)
    assert "----> 2 check(0)" in plain
    assert re.search(r"Cell In\[\d+\], line 2, in check\n.*\n----> 2     assert x > 1", plain)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--precison bf16", "did you mean --precision?"),
        ("--gpus 5", "--gpus 5: "),
        ("--resume no-such-run", "there is no run"),
        ("--config no.yaml", "can't be read as a config"),
    ],
)
def test_a_wrong_line_is_one_message_without_a_traceback(notebook: Notebook, line: str, words: str) -> None:
    failed = notebook.run(f"%%jtrain {line}\npass")
    assert failed.status == "error"
    assert words in failed.message
    assert len(failed.traceback.splitlines()) <= 3


@pytest.mark.parametrize(
    ("body", "line", "source"), [("\nx = (1,", 3, "x = (1,"), ("if True:\n    await f()", 3, "await f()")]
)
def test_a_cell_that_is_no_program_is_told_with_its_line(notebook: Notebook, body: str, line: int, source: str) -> None:
    failed = notebook.run(f"%%jtrain --nproc 1 --gpus none\n{body}")
    assert failed.error == "InvalidCellError"
    where, code, mark, message = failed.traceback.splitlines()
    assert re.fullmatch(rf"  Cell In\[\d+\], line {line}", where)
    assert code.strip() == source
    assert mark.strip() == "^"
    assert message.startswith("SyntaxError: ")


def test_an_interrupt_pauses_and_the_run_goes_on_when_resumed(notebook: Notebook) -> None:
    paused = notebook.run(
        f"{TWO} -o reached\n{ENDLESS}    reached = run.global_step\n    if reached > 400: break\n",
        interrupt_when="training",
    )
    assert (paused.status, paused.error) == ("error", "RunInterrupted")
    assert "Pausing" in paused.stdout
    name = run_id(paused.texts[0])
    assert f"run {name} is paused at step" in paused.message
    assert f"%jtrain resume {name}" in paused.message
    assert len(paused.traceback.splitlines()) <= 2
    done = notebook.run(f"%jtrain resume {name}")
    assert done.status == "ok"
    assert re.search(r"attempts +2", done.texts[0])
    assert notebook.value("reached") == "401"


@pytest.mark.parametrize("times", [2, 3])
def test_further_interrupts_stop_a_run_that_can_not_pause_soon(notebook: Notebook, times: int) -> None:
    slow = ENDLESS.replace("time.sleep(0.01)", "time.sleep(0.01 if run.global_step < 3 else 60)")
    stopped = notebook.run(f"{TWO}\n{slow}", interrupt_after=[3.0 + 0.02 * n for n in range(times)])
    assert (stopped.status, stopped.error) == ("error", "RunInterrupted")
    name = run_id(stopped.message)
    assert notebook.value(f"__import__('jtrain').Run({name!r}).wait(30).value") == "'stopped'"


def test_an_interrupt_stops_run_all(notebook: Notebook) -> None:
    """Cells that were sent after the interrupted one are given up."""
    first = notebook.client.execute(f"{TWO}\n{ENDLESS}")
    second = notebook.client.execute("after = True")
    timer = threading.Timer(3.0, notebook.manager.interrupt_kernel)
    timer.start()
    replies = {}
    while not {first, second} <= replies.keys():
        message = notebook.client.get_shell_msg(timeout=60)
        replies[message["parent_header"]["msg_id"]] = message["content"]["status"]
    timer.join()
    assert replies[first] == "error"
    assert replies[second] in ("aborted", "error")


def test_an_interrupt_while_the_cell_is_captured_starts_nothing(notebook: Notebook) -> None:
    notebook.run(
        "import time\nclass Slow:\n    def __reduce__(self):\n        print('packing', flush=True)\n"
        "        time.sleep(20)\n        return Slow, ()\nslow = Slow()"
    )
    before = notebook.run("%jtrain runs --all").stdout
    stopped = notebook.run("%%jtrain --nproc 1 --gpus none\nslow", interrupt_when="packing")
    assert stopped.error == "RunInterrupted"
    assert "nothing was started" in stopped.message
    assert len(notebook.run("%jtrain runs --all").stdout.splitlines()) == len(before.splitlines())


def test_background_returns_a_run_that_attach_shows(notebook: Notebook) -> None:
    started = notebook.run("%%jtrain --nproc 1 --gpus none --background -o x\nprint('working')\nx = 5")
    assert started.status == "ok"
    assert re.match(r"<Run \S+: \w+>", started.texts[0])
    assert "text/html" in started.displays[0]
    shown = notebook.run("%jtrain attach")
    assert shown.stdout == "working\n"
    assert "finished" in shown.texts[0]
    assert notebook.value("x") == "5"


def test_a_million_printed_lines_are_few_messages_and_a_whole_log(notebook: Notebook) -> None:
    cell = "for number in range(1_000_000):\n    print('line', number)"
    done = notebook.run(f"%%jtrain --nproc 1 --gpus none\n{cell}")
    lines = done.stdout.splitlines()
    assert lines[0] == "line 0"
    assert lines[-1] == "line 999999"
    assert any("lines are left out here" in line for line in lines)
    assert len(done.stdout) < 500_000
    assert notebook.run("%jtrain logs --lines 2").stdout == "line 999998\nline 999999\n"


def test_a_magic_inside_another_waits_too(notebook: Notebook) -> None:
    done = notebook.run("%%capture kept\n%%jtrain --nproc 1 --gpus none -o y\nprint('inside')\ny = 3")
    assert done.status == "ok", done.traceback
    assert notebook.value("kept.stdout") == "'inside\\n'"
    assert notebook.value("y") == "3"


def test_a_notebook_run_from_a_cell_waits_too(notebook: Notebook, tmp_path: Path) -> None:
    import nbformat

    path = tmp_path / "inner.ipynb"
    cell = nbformat.v4.new_code_cell("%%jtrain --nproc 1 --gpus none -o z\nz = 4")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    done = notebook.run(f"%run {str(path)!r}")
    assert done.status == "ok", done.traceback
    assert notebook.value("z") == "4"


def test_values_of_the_notebook_can_stand_in_the_line(notebook: Notebook) -> None:
    notebook.run("ranks, title = 2, 'it\\'s --nproc 9'")
    done = notebook.run("%%jtrain --nproc {ranks} --gpus none --name $title -o size\nsize = run.world_size")
    assert done.status == "ok", done.traceback
    assert notebook.value("size") == "2"
    assert "(it's --nproc 9): finished" in done.texts[0]


def test_lines_that_go_on_after_a_backslash_are_one_line_and_errors_count_them(notebook: Notebook) -> None:
    failed = notebook.run("\n%%jtrain --nproc 1 \\\n    --gpus none\n\n1 / 0")
    plain = re.sub(r"\x1b\[[\d;]*m", "", failed.traceback)
    assert re.search(r"Cell In\[\d+\], line 5\n", plain)


def test_help_is_printed_and_shown_by_a_question_mark(notebook: Notebook) -> None:
    printed = notebook.run("%%jtrain --help\n")
    assert "--checkpoint-every" in printed.stdout
    assert "%jtrain VERB" in printed.stdout
    reply = notebook.client.inspect("%%jtrain", 5, reply=True, timeout=30)["content"]
    assert "--checkpoint-every" in reply["data"]["text/plain"]
    assert notebook.run("%%jtrain?").status == "ok"
    assert "jtrain" in notebook.run("%lsmagic").texts[0]


def test_an_empty_cell_says_so(notebook: Notebook) -> None:
    assert "no code below %%jtrain" in notebook.run("%%jtrain --nproc 2\n\n").message


def test_options_are_completed_by_the_kernel(notebook: Notebook) -> None:
    def complete(code: str, at: int | None = None) -> list[str]:
        reply = notebook.client.complete(code, len(code) if at is None else at, reply=True, timeout=30)["content"]
        start, end = reply["cursor_start"], reply["cursor_end"]
        position = len(code) if at is None else at
        return [code[:start] + match + code[end:position] for match in reply["matches"]]

    assert complete("%%jtrain --gpus 2 --prec") == ["%%jtrain --gpus 2 --precision"]
    assert complete("%%jtrain --precision b\nx = 1", 22) == ["%%jtrain --precision bf16"]
    assert complete("%%jtrain -o mo\nmodel = 1", 14) == ["%%jtrain -o model"]
    assert complete("%jtrain chec") == ["%jtrain checkpoints"]
    assert "import os" not in complete("%%jtrain --pre")


def test_dry_run_tells_devices_batch_and_what_would_be_sent(notebook: Notebook) -> None:
    notebook.run("import numpy\nbig = numpy.zeros(1_000_000)")
    before = notebook.run("%jtrain runs --all").stdout
    told = notebook.run("%%jtrain --nproc 2 --gpus none --accumulate 3 --dry-run\nbig.sum()")
    assert "2 CPU slots" in told.stdout
    assert "6 times the loader's batch size" in told.stdout
    assert re.search(r"big +ndarray +7.63 MiB", told.stdout)
    assert len(notebook.run("%jtrain runs --all").stdout.splitlines()) == len(before.splitlines())


def test_reloading_and_unloading_leave_nothing_twice(notebook: Notebook) -> None:
    count = "len([t for t in get_ipython().input_transformers_cleanup if 'jtrain' in str(t)])"
    matchers = "len([m for m in get_ipython().Completer.custom_matchers if m.matcher_identifier == 'jtrain'])"
    assert notebook.run("%reload_ext jtrain\n").status == "ok"
    assert (notebook.value(count), notebook.value(matchers)) == ("1", "1")
    assert notebook.run("%unload_ext jtrain").status == "ok"
    assert (notebook.value(count), notebook.value(matchers)) == ("0", "0")
    assert "not found" in notebook.run("%%jtrain\npass").stderr + notebook.run("%%jtrain\npass").traceback
    assert notebook.run("%load_ext jtrain").status == "ok"
    assert notebook.run("%%jtrain --nproc 1 --gpus none\nprint('again')").stdout == "again\n"


def test_it_works_beside_autoreload(notebook: Notebook) -> None:
    assert notebook.run("%load_ext autoreload\n%autoreload 2").status == "ok"
    assert notebook.run("%%jtrain --nproc 1 --gpus none\nprint('fine')").stdout == "fine\n"
    notebook.run("%autoreload 0")
