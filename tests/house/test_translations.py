"""The translations that ship with the package fit the strings of the sidebar."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jupyterlab_server.translation_utils import get_installed_packages_locale

ROOT = Path(__file__).parents[2]
LOCALES = sorted((ROOT / "jtrain" / "locale").glob("*/LC_MESSAGES/jtrain.json"))
CONTEXT = "\u0004"  # between a context and its string, in a key
CALL = re.compile(r"\btrans\s*\.\s*(__|_n|_p|_np|n?p?gettext|dcnpgettext)\s*\(")
LITERAL = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`((?:[^`\\$]|\\.)*)`)\s*(,|\))""")
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
NUM_LITERALS = {"__": 1, "_n": 2, "_p": 2, "_np": 3}


def unescape(text: str) -> str:
    return ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else {"n": "\n", "t": "\t"}.get(m[2], m[2]), text)


def strings_in(source: str) -> dict[str, list[str]]:
    """The strings of one file by the key that JupyterLab looks up: one form, or singular and plural."""
    found: dict[str, list[str]] = {}
    for call in CALL.finditer(source):
        name, at, words = call[1], call.end(), []
        for _ in range(NUM_LITERALS[name]):
            literal = LITERAL.match(source, at)
            assert literal, f"not a plain string: {source[call.start() : at + 60]}"
            at = literal.end()
            words.append(unescape(next(word for word in literal.groups()[:3] if word is not None)))
        context = words.pop(0) + CONTEXT if name in ("_p", "_np") else ""
        key = context + words[0]
        assert found.setdefault(key, words) == words, f"once with a plural, once without: {key}"
    return found


def all_strings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "extension" / "src").rglob("*.ts*")):
        for key, words in strings_in(path.read_text(encoding="utf-8")).items():
            assert found.setdefault(key, words) == words, f"once with a plural, once without: {key}"
    return found


def placeholders(text: str) -> list[str]:
    return sorted(re.findall(r"%\d+", text))


def test_strings_are_found_however_they_are_written() -> None:
    source = """
        trans.__('a'); trans.__(\n  "it's",\n  x\n); trans.__(`c`); trans.__('d\\'e \\u2026');
        this.trans._n('%1 f', '%1 fs', n); trans._p('menu', 'g')
    """
    assert strings_in(source) == {
        "a": ["a"],
        "it's": ["it's"],
        "c": ["c"],
        "d'e …": ["d'e …"],
        "%1 f": ["%1 f", "%1 fs"],
        f"menu{CONTEXT}g": ["g"],
    }
    with pytest.raises(AssertionError, match="not a plain string"):
        strings_in("trans.__(words)")


@pytest.mark.parametrize("path", LOCALES, ids=lambda path: path.parts[-3])
def test_each_string_has_its_translation(path: Path) -> None:
    translations = json.loads(path.read_text(encoding="utf-8"))
    about = translations.pop("")
    # The browser keeps the strings under this name, and writes locales with a hyphen.
    assert about["language"] == path.parts[-3].replace("_", "-")
    assert about["domain"] == "jtrain"
    assert re.fullmatch(r"nplurals=\d; plural=[^;]+;", about["plural_forms"])
    strings = all_strings()
    assert len(strings) > 100
    assert sorted(strings.keys() - translations.keys()) == [], "strings without a translation"
    assert sorted(translations.keys() - strings.keys()) == [], "translations without a string"
    for key, words in strings.items():
        forms = translations[key]
        # JupyterLab takes a lone form for a string without plural, and passes over it when it looks for a plural.
        assert len(forms) == 1 if len(words) == 1 else len(forms) > 1, key
        for form in forms:
            assert form.strip(), key
            assert placeholders(form) == placeholders(words[-1]), key


def test_jupyterlab_is_given_the_chinese_strings() -> None:
    locales, problems = get_installed_packages_locale("zh_CN")
    assert not problems.strip()
    assert locales["jtrain"]["Checkpoints"] == ["检查点"]
