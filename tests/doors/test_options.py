"""Options: declared once, read from lines, checked with helpful words."""

from __future__ import annotations

from pathlib import Path

import pytest

from jtrain.errors import OptionError
from jtrain.optionline import help_of, options_table_markdown, read_options
from jtrain.options import RunOptions, make_options
from jtrain.optiontable import flags_of


def read(line: str) -> RunOptions:
    return read_options(line)[0]


def test_a_line_becomes_options() -> None:
    options = read("--gpus 0,2 --precision=bf16 --accumulate 4 -o model,history -i vocabulary --tag a=b --tag 'c=d e'")
    assert options.gpus == "0,2"
    assert options.precision == "bf16"
    assert options.accumulate == 4
    assert options.outputs == ("model", "history")
    assert options.inputs == ("vocabulary",)
    assert options.tag == {"a": "b", "c": "d e"}


@pytest.mark.parametrize(
    ("line", "outputs"),
    [
        ("-o a,b", ("a", "b")),
        ("-o a, b", ("a", "b")),
        ("-oa,b", ("a", "b")),
        ("--outputs=a -o b", ("a", "b")),
        ("-o a,a", ("a",)),
    ],
)
def test_names_are_written_in_any_usual_way(line: str, outputs: tuple[str, ...]) -> None:
    assert read(line).outputs == outputs


def test_a_negative_number_is_a_value_and_no_option() -> None:
    assert read("--priority -5").priority == -5


def test_the_last_value_of_an_option_counts() -> None:
    assert read("--nproc 2 --nproc 3").nproc == 3


@pytest.mark.parametrize(
    ("text", "steps", "seconds"),
    [
        ("500steps", 500, None),
        ("1step", 1, None),
        ("30s", None, 30.0),
        ("10min", None, 600.0),
        ("2h", None, 7200.0),
        ("1.5h", None, 5400.0),
        ("'10 min'", None, 600.0),
    ],
)
def test_checkpoints_come_after_steps_or_time(text: str, steps: int | None, seconds: float | None) -> None:
    options = read(f"--checkpoint-every {text}")
    assert (options.checkpoint_every_steps, options.checkpoint_every_s) == (steps, seconds)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--precison bf16", "--precison; did you mean --precision?"),
        ("-precision bf16", "-precision; did you mean --precision?"),
        ("--precision bf17", "--precision bf17: did you mean bf16? It can be no, fp16 or bf16"),
        ("--precision", "--precision needs a value: --precision no|fp16|bf16"),
        ("--nproc 0", "--nproc 0: it must be at least 1"),
        ("--nproc two", "--nproc two: it takes a whole number, for example --nproc 2"),
        ("--nproc", "--nproc needs a value"),
        ("--nproc --seed 1", "--nproc needs a value"),
        ("--checkpoint-every often", "it is a number with a unit, such as 500steps"),
        ("--checkpoint-every 500", "500 of what? Write 500steps"),
        ("--checkpoint-every 0steps", "above 0"),
        ("--checkpoint-every 5mins", "did you mean 5min?"),
        ("--clip-grad 0", "--clip-grad 0: it must be above 0"),
        ("--seed -1", "--seed -1: it must be at least 0"),
        ("--keep 0", "--keep 0: it must be at least 1"),
        ("--tag x", "--tag x: 'x' is written as key=value"),
        ("--env 1X=2", "'1X' is no name of an environment variable"),
        ("--set x", "written as section.key=value"),
        ("-o a.b", "'a.b' is no name of a variable"),
        ("-o model history", "unexpected 'history': write names with commas"),
        ("gpus 2", "unexpected 'gpus'; did you mean --gpus?"),
        ("--gpus 2 fast", "unexpected 'fast': every option begins with a dash"),
        ("--name 'a", "has no partner"),
        ("--on moon", "it can be local"),
        ("--background=perhaps", "it is a switch"),
        ("--frobnicate", "there are: --gpus, --nproc"),
        ("-- a", "for scripts on the command line"),
    ],
)
def test_a_wrong_line_is_told_what_is_wrong_and_what_would_be_right(line: str, words: str) -> None:
    with pytest.raises(OptionError) as caught:
        read(line)
    assert words in str(caught.value)


def test_all_wrong_values_are_told_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        read("--nproc 0 --precision bf17 --keep none")
    assert len(str(caught.value).splitlines()) == 3


def test_python_spells_options_as_python() -> None:
    with pytest.raises(OptionError, match="unknown option precison; did you mean precision"):
        make_options(precison="bf16")
    with pytest.raises(OptionError, match="precision='bf17': did you mean bf16"):
        make_options(precision="bf17")
    with pytest.raises(OptionError, match="it takes a number"):
        make_options(nproc=True)


def test_python_and_yaml_values_mean_the_same_as_words_on_a_line() -> None:
    assert make_options(gpus=2).gpus == "2"
    assert make_options(gpus=[0, 2]).gpus == read("--gpus 0,2").gpus
    assert make_options(gpus=[0]).gpus == "0,"
    assert make_options(precision=False).precision == "no"  # YAML 1.1 reads `no` so
    assert make_options(outputs="a,b") == make_options(outputs=["a", "b"]) == read("-o a,b")
    assert make_options(tag={"k": 1}) == make_options(tag=["k=1"]) == read("--tag k=1")
    assert make_options(set={"training.learning_rate": 3e-4}).set == ("training.learning_rate=0.0003",)


def test_options_survive_the_spec() -> None:
    options = make_options(gpus=[0, 2], tag={"a": "b"}, checkpoint_every="10min", env={"X": "1"}, outputs="m")
    assert RunOptions.model_validate_json(options.model_dump_json()) == options


def test_options_can_not_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        make_options().nproc = 3  # type: ignore[misc]


def test_every_option_has_help_and_an_example_that_can_be_read() -> None:
    for flag in flags_of(RunOptions).values():
        assert flag.option.help
        assert flag.is_switch or flag.option.example
        value = [] if flag.is_switch else [flag.option.example]
        assert flag.name in read_options("", [flag.flag, *value])[1].values


def test_the_help_names_every_option() -> None:
    text = help_of(flags_of(RunOptions))
    assert all(flag.flag in text for flag in flags_of(RunOptions).values())
    assert max(map(len, text.splitlines())) <= 100


def test_the_table_in_the_readme_is_the_one_the_options_make() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    if "| option |" not in readme:
        pytest.skip("the README has no table of options yet")
    assert options_table_markdown() in readme


def test_a_name_that_is_too_long_is_told_how_long_it_may_be() -> None:
    with pytest.raises(OptionError, match="201 characters; the most are 200"):
        make_options(name="n" * 201)


def test_a_priority_is_bounded_and_a_long_value_is_not_repeated_whole() -> None:
    with pytest.raises(OptionError, match="at most 1000000"):
        make_options(priority=10**30)
    with pytest.raises(OptionError) as raised:
        make_options(name="x" * 10_000)
    assert len(str(raised.value)) < 400
