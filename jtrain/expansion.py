"""`$name` and `{expression}` in a magic's line: values of the notebook, as other magics take them.

A value becomes part of one word whatever it holds, so that a name with spaces or quotes can't turn into options. What
can't be evaluated stays as it is written (a brace in a pattern, a dollar sign in a password).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jtrain.optionline import split_line

_PIECE = re.compile(r"\{\{|\}\}|\$\$|\{[^{}:]+(?::[^{}\s]*)?\}|\$[A-Za-z_][\w.]*")
_ESCAPED = {"{{": "{", "}}": "}", "$$": "$"}
_MARK = "\ue000{}\ue001"
_MARKED = re.compile("\ue000(\\d+)\ue001")


def words_of(line: str, shell: Any) -> list[str]:
    """The words of `line`, with values of the notebook put in."""
    values: list[str] = []

    def mark(match: re.Match[str]) -> str:
        value = _ESCAPED.get(match[0]) or _evaluate(match[0], shell.user_ns)
        if value is None:
            return match[0]
        values.append(value)
        return _MARK.format(len(values) - 1)

    words = split_line(_PIECE.sub(mark, line))
    return [_MARKED.sub(lambda match: values[int(match[1])], word) for word in words]


def _evaluate(piece: str, namespace: Mapping[str, object]) -> str | None:
    """The text of `$name` or `{expression}`, or None when it has none here."""
    from IPython.utils.text import DollarFormatter

    try:
        text = DollarFormatter().vformat(piece, (), dict(namespace))
    except Exception:  # noqa: BLE001 - an expression of the user's may raise anything; then it was meant literally
        return None
    return None if text == piece else text
