"""Completion in notebooks and IPython: options, their values, verbs, run ids, names for -i and -o."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jtrain.errors import StoreError
from jtrain.options import RunOptions
from jtrain.optiontable import Flag, flags_of
from jtrain.store.checkpoints import list_checkpoints
from jtrain.store.runs import RunStore
from jtrain.verbs.table import VERBS

_MOST_RUNS = 200
_LINE = re.compile(r"(?P<magic>%%?jtrain)\s+(?P<words>.*)", re.DOTALL)
_NAMES = r"([A-Za-z_]\w*(?:[ \t]*,[ \t]*[A-Za-z_]\w*)*)"
_ASSIGNED = re.compile(rf"^[ \t]*(?:for[ \t]+|with[ \t].*?[ \t]as[ \t]+)?{_NAMES}[ \t]*(?:=(?!=)|in\b|:)", re.MULTILINE)


def complete(line: str, body: str, namespace: Mapping[str, object]) -> tuple[str, list[str]]:
    """The unfinished word at the end of a magic's `line`, and what it can become.

    `body`: the cell below it, whose assigned names are offered for -o. `namespace`: the notebook's variables.
    """
    match = _LINE.fullmatch(line)
    if match is None:
        return "", []
    *words, fragment = re.split(r"\s+", match["words"])
    if match["magic"] == "%%jtrain":
        found = _words(words, fragment, flags_of(RunOptions), body, namespace)
    elif not words:
        found = fragment, list(VERBS)
    elif words[0] in VERBS:
        found = _words(words[1:], fragment, flags_of(VERBS[words[0]].arguments), body, namespace)
    else:
        return fragment, []
    fragment, candidates = found
    return fragment, [candidate for candidate in candidates if candidate.startswith(fragment)]


def _words(
    words: list[str], fragment: str, flags: Mapping[str, Flag], body: str, namespace: Mapping[str, object]
) -> tuple[str, list[str]]:
    name, equals, value = fragment.partition("=")
    if equals and (flag := _find(name, flags)) is not None:
        return value, _values(flag, body, namespace)
    if words and (flag := _find(words[-1], flags)) is not None and not flag.is_switch:
        head, comma, last = fragment.rpartition(",")
        taken = set(head.split(",")) if comma else set()
        return last, [value for value in _values(flag, body, namespace) if value not in taken]
    if not fragment or fragment.startswith("-"):
        options = [flag.flag for flag in flags.values() if not flag.option.positional]
        if fragment or not any(flag.option.positional for flag in flags.values()):
            return fragment, options
    positional = next((flag for flag in flags.values() if flag.option.positional), None)
    return fragment, _values(positional, body, namespace) if positional is not None else []


def _find(word: str, flags: Mapping[str, Flag]) -> Flag | None:
    return next((flag for flag in flags.values() if word in (flag.flag, flag.option.short) and word), None)


def _values(flag: Flag, body: str, namespace: Mapping[str, object]) -> list[str]:
    kind = flag.option.completes
    found = list(flag.option.words)
    if kind in ("run", "checkpoint"):
        found += run_ids()
    if kind == "checkpoint":
        found += _checkpoint_ids()
    if kind == "assigned":
        found += assigned_names(body)
    if kind == "variable":
        found += sorted(name for name in namespace if not name.startswith("_"))
    return found


def run_ids() -> list[str]:
    """Ids of the newest runs; none when the store can't be read."""
    try:
        return [summary.id for summary in RunStore().list(limit=_MOST_RUNS)]
    except StoreError:
        return []


def _checkpoint_ids() -> list[str]:
    store = RunStore()
    ids = run_ids()[:20]
    return [f"{run_id}/{info.name}" for run_id in ids for info in list_checkpoints(store.paths.run(run_id))]


def assigned_names(body: str) -> list[str]:
    """Names that a cell assigns, found without parsing: it is being written and may not be a program yet."""
    groups = (match[1].split(",") for match in _ASSIGNED.finditer(body))
    return list(dict.fromkeys(name.strip() for group in groups for name in group if name.strip() != "else"))


class Completion:
    """The matcher in one shell's completer."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._matcher: Any = None

    def open(self) -> None:
        """Begin to complete."""
        from IPython.core.completer import SimpleCompletion, context_matcher

        @context_matcher(identifier="jtrain")
        def matcher(context: Any) -> dict[str, Any]:
            line, body = line_and_body(context.full_text, context.cursor_line, context.cursor_position)
            fragment, candidates = complete(line, body, self._shell.user_ns)
            return {
                "completions": [SimpleCompletion(text=text, type="magic") for text in candidates],
                "matched_fragment": fragment,
                "suppress": bool(candidates),
            }

        self._matcher = matcher
        self._shell.Completer.custom_matchers.insert(0, matcher)

    def close(self) -> None:
        """End."""
        matchers: list[Any] = self._shell.Completer.custom_matchers
        if self._matcher in matchers:
            matchers.remove(self._matcher)


def line_and_body(text: str, cursor_line: int, cursor_position: int) -> tuple[str, str]:
    """The magic's line up to the cursor (with lines that were continued by a backslash), and the lines below it."""
    lines = text.split("\n")
    start = cursor_line
    while start > 0 and lines[start - 1].rstrip().endswith("\\"):
        start -= 1
    before = [line.rstrip().removesuffix("\\").rstrip() for line in lines[start:cursor_line]]
    current = lines[cursor_line][:cursor_position] if cursor_line < len(lines) else ""
    return " ".join([*before, current]).lstrip(), "\n".join(lines[cursor_line + 1 :])
