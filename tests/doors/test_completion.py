"""What completion offers."""

from __future__ import annotations

import pytest

from jtrain.completion import assigned_names, complete, line_and_body
from tests.doors.stores import make_run

BODY = (
    "model = Net()\nfor batch, target in loader:\n    total += 1\n    loss: float = f(batch)\nif loss == 3:\n    pass\n"
)


def offers(line: str, body: str = "", **namespace: object) -> list[str]:
    return complete(line, body, namespace)[1]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("%%jtrain --prec", ["--precision"]),
        ("%%jtrain --precision ", ["no", "fp16", "bf16"]),
        ("%%jtrain --precision b", ["bf16"]),
        ("%%jtrain --precision=f", ["fp16"]),
        ("%%jtrain --gpus a", ["auto", "all"]),
        ("%%jtrain --gpus p", ["picker"]),
        ("%jtrain pa", ["pause"]),
        ("%jtrain clean --o", ["--older-than"]),
        ("%jtrain nonsense --o", []),
        ("%jtrainx ", []),
        ("jtrain ", []),
    ],
)
def test_options_and_values_and_verbs(line: str, offered: list[str]) -> None:
    assert offers(line) == offered


def test_everything_is_offered_where_nothing_is_written() -> None:
    assert "--checkpoint-every" in offers("%%jtrain ")
    assert "compare" in offers("%jtrain ")


def test_names_of_the_cell_are_offered_for_outputs_and_those_of_the_notebook_for_inputs() -> None:
    assert offers("%%jtrain -o ", BODY, other=1) == ["model", "batch", "target", "loss"]
    assert complete("%%jtrain -o model,lo", BODY, {}) == ("lo", ["loss"])
    assert offers("%%jtrain -o model,m", BODY) == []
    assert offers("%%jtrain -i ", BODY, other=1, _hidden=2) == ["other"]


def test_run_ids_are_offered() -> None:
    make_run("brisk-otter-7")
    assert offers("%jtrain attach br") == ["brisk-otter-7"]
    assert offers("%jtrain compare brisk-otter-7 br") == ["brisk-otter-7"]
    assert offers("%%jtrain --resume ") == ["auto", "brisk-otter-7"]


def test_assignments_are_found_in_a_cell_that_is_not_finished() -> None:
    assert assigned_names("a, b = 1, 2\nwith open(f) as file:\n  x = (\n") == ["a", "b", "file", "x"]


def test_a_line_that_goes_on_after_a_backslash_is_one_line() -> None:
    text = "%%jtrain --gpus 2 \\\n   --prec\nmodel = 1"
    assert line_and_body(text, 1, 9) == ("%%jtrain --gpus 2    --prec", "model = 1")
