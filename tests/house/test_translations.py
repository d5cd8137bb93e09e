"""Every text of the sidebar has its translation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jupyterlab_server.translation_utils import get_installed_packages_locale

ROOT = Path(__file__).parents[2]
LOCALES = ROOT / "jtrain" / "locale"
_STRING = r"""(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")"""


def strings() -> set[str]:
    """What the extension's code gives to `trans.__` and, of a plural, the singular that it is looked up by."""
    found = set()
    for file in (ROOT / "extension" / "src").rglob("*.ts*"):
        for single, double in re.findall(rf"trans\s*\.\s*(?:__|_n)\(\s*{_STRING}", file.read_text()):
            found.add(re.sub(r"\\(.)", r"\1", single or double))
    return found


@pytest.mark.parametrize("locale", sorted(folder.name for folder in LOCALES.iterdir()))
def test_every_string_is_translated_with_the_same_places(locale: str) -> None:
    texts = json.loads((LOCALES / locale / "LC_MESSAGES" / "jtrain.json").read_text())
    head = texts.pop("")
    assert head["language"] == locale
    assert set(texts) == strings()
    for text, (translation, *_) in texts.items():
        assert sorted(re.findall(r"%\d", text)) == sorted(re.findall(r"%\d", translation)), text


def test_jupyterlab_is_given_them() -> None:
    found, problems = get_installed_packages_locale("zh_CN")
    assert not problems
    assert found["jtrain"]["Devices"] == ["设备"]
