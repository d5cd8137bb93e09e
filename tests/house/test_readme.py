"""The README says what is."""

from __future__ import annotations

import re
from pathlib import Path

from jtrain.optionline import options_table_markdown
from jtrain.verbs.table import VERBS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_table_of_options_is_the_one_the_program_has() -> None:
    shown = README.split("<!-- options -->")[1].split("<!-- /options -->")[0]
    assert shown.strip() == options_table_markdown().strip()


def test_links_and_pictures_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_rooms_that_it_names_exist() -> None:
    rooms = README.split("### How it is built")[1].split("##")[0]
    last = ""
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", rooms):
        if "/" in name.rstrip("/"):
            last = name.rsplit("/", 1)[0]
        assert (ROOT / "jtrain" / name).exists() or (ROOT / "jtrain" / last / name).exists(), name


def test_every_verb_is_named() -> None:
    for verb in VERBS:
        assert f"`{verb}`" in README, verb


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:`|^)make (\w+)", README, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target
