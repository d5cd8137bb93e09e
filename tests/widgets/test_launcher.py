"""Launcher without a browser: its fields are those of the option table, and its button starts what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jtrain
from jtrain.domain.devices import SIMULATED_PREFIX
from jtrain.errors import OptionError
from jtrain.optionline import options_line, read_options
from jtrain.options import RunOptions, make_options
from jtrain.optiontable import flags_of
from jtrain.store.runs import RunStore
from jtrain.widgets.form import FIELDS, fields_of
from jtrain.widgets.launcher import CapturedCell, Launcher

pytestmark = pytest.mark.timeout(180)
CPU = {"gpus": "none", "nproc": 2, "seed": 1}
UUID = f"{SIMULATED_PREFIX}0000-0000-0000-{1:012d}"


def add(left: int, right: int = 1, run: Any = None) -> int:
    return left + right + 10 * run.world_size


def click(launcher: Launcher, **values: str) -> None:
    """What the form sends for its button."""
    launcher._form._hear({"launch": values})


def test_fields_are_made_from_the_table_of_options() -> None:
    fields = {field["name"]: field for field in fields_of()}
    flags = flags_of(RunOptions)
    assert tuple(fields) == FIELDS
    for name, field in fields.items():
        assert field["help"] == flags[name].option.help
        assert tuple(word for word, _ in field["words"]) == flags[name].option.words
    assert fields["precision"]["is_closed"]
    assert not fields["gpus"]["is_closed"]
    assert ["picker", "the chosen devices"] in fields["gpus"]["words"]


def test_the_button_launches_the_function_with_the_forms_options() -> None:
    launcher = jtrain.Launcher(add, 1, right=2, options=CPU)
    click(launcher, name="by hand", accumulate="3", precision="bf16", checkpoint_every="10min")
    assert launcher._form.problem == ""
    run = launcher.run
    assert run is not None
    assert run.result(timeout=90) == 23
    options = run.spec.options
    assert (options.name, options.accumulate, options.precision, options.nproc, options.seed) == (
        *("by hand", 3, "bf16"),
        *(2, 1),
    )
    assert options.checkpoint_every == "10min"
    assert launcher._monitor is not None
    assert launcher._monitor.run.id == run.id
    assert launcher.children[-1] is launcher._monitor
    click(launcher, name="again")
    second = launcher.run
    assert second is not None
    assert second.id != run.id, "every click is a run of its own"
    assert second.result(timeout=90) == 23
    assert len(launcher.children) == 3
    launcher.close()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"accumulate": "many"}, "accumulate many: it takes a whole number"),
        ({"nproc": "0"}, "nproc 0: it must be at least 1"),
        ({"precision": "bf17"}, "did you mean bf16"),
        ({"checkpoint_every": "10"}, "10 of what?"),
        ({"gpus": "picker"}, "no GPU can be seen on this machine"),
        ({"gpus": "nonne"}, "did you mean `--gpus none`"),
        ({"name": "a\nb"}, "one line"),
    ],
)
def test_a_mistake_is_told_in_words_and_nothing_is_started(values: dict[str, str], said: str) -> None:
    launcher = jtrain.Launcher(add, 1, options={"gpus": "none"})
    click(launcher, **values)
    assert said in launcher._form.problem
    assert launcher.run is None
    assert RunStore().list() == []


def test_what_cant_travel_is_told_in_words() -> None:
    with open(__file__) as file:
        launcher = jtrain.Launcher(lambda given: given, file, options=CPU)
        click(launcher)
    assert launcher.run is None
    assert "file" in launcher._form.problem


def test_the_form_shows_the_line_that_says_the_same() -> None:
    launcher = jtrain.Launcher(add, 1, options={"tag": {"project": "a b"}})
    launcher._form._hear({"change": {"gpus": "2", "accumulate": "4", "name": "first try"}})
    assert launcher._form.command == "%%jtrain --gpus 2 --accumulate 4 --name 'first try' --tag 'project=a b'"
    options, _ = read_options(launcher._form.command.removeprefix("%%jtrain"))
    assert options == launcher.options


@pytest.mark.parametrize(
    "options",
    [
        {"gpus": [0, 2], "outputs": "model,history", "background": True, "clip_grad": 0.5},
        {"tag": {"a": "b c", "d": "e"}, "env": {"X": "1 2"}, "set": ["training.epochs=5", "model.name=a"]},
        {"keep": 5, "resume": "auto", "checkpoint_every": "500steps", "priority": -3},
    ],
)
def test_a_line_made_of_options_is_read_back_as_them(options: dict[str, Any]) -> None:
    made = make_options(**options)
    read, _ = read_options(options_line(made))
    assert read == made


def test_who_chooses_a_device_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JTRAIN_SIMULATE_GPUS", "2")
    launcher = jtrain.Launcher(add, 1)
    launcher.picker.toggle(UUID)
    assert launcher._form.values["gpus"] == "picker"
    run = launcher.launch()
    assert run.result(timeout=90) == 12
    assert list(run.standing.devices) == [UUID]
    assert jtrain.Launcher(add, 1)._form.values["gpus"] == "picker", "what was chosen before counts too"
    assert jtrain.Launcher(add, 1, options={"gpus": "none"})._form.values["gpus"] == "none"
    launcher.picker.toggle(UUID)
    assert launcher._form.values["gpus"] == "auto"


def test_a_captured_cell_is_launched_with_the_notebooks_variables() -> None:
    cell = CapturedCell("run.log(x=number)", {"number": 7}, "Cell In[3]", 2)
    launcher = jtrain.Launcher(cell=cell, options=CPU)
    assert launcher._form.title == "Launch Cell In[3]"
    cell.namespace["number"] = 8
    run = launcher.launch()
    run.wait(90)
    assert run.metrics.last("x") == 8, "what variables are is looked up at the click"


def test_without_a_function_it_writes_the_line() -> None:
    launcher = jtrain.Launcher()
    assert not launcher._form.can_launch
    launcher._form._hear({"change": {"precision": "bf16"}})
    assert launcher._form.command == "%%jtrain --precision bf16"
    with pytest.raises(OptionError, match="nothing to launch"):
        launcher.launch()


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(OptionError, match="takes a function"):
        jtrain.Launcher("train")  # type: ignore[arg-type]


def test_the_launcher_option_belongs_to_cells(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="%%jtrain --launcher"):
        jtrain.launch(add, 1, launcher=True)


@pytest.mark.parametrize("content", [None, {"launch": 3}, {"change": {"rm": "x", "keep": 7}}, {"launch": None}])
def test_what_a_strange_front_end_sends_does_no_harm(content: Any) -> None:
    launcher = jtrain.Launcher(add, 1, options=CPU)
    launcher._form._handle_custom_msg(content, [])
    assert launcher.run is None


def test_its_text_says_how_to_launch() -> None:
    launcher = jtrain.Launcher(add, 1, right=2, options=CPU)
    assert "Launch add(1, right=2)\n  %%jtrain --gpus none --nproc 2 --seed 1" in repr(launcher)
    launcher.launch().wait(90)
    assert f"run {launcher.run}".split()[0] in repr(launcher)
    assert "finished" in repr(launcher)
