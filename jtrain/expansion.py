"""`$name` and `{expression}` in a magic's line: values of the notebook, as other magics take them.

A value becomes part of one word whatever it holds, so that a name with spaces or quotes can't turn into options. What
can't be evaluated stays as it is written (a brace in a pattern, a dollar sign in a password).
"""

from __future__ import annotations

import re
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
        value = _ESCAPED.get(match[0]) or shell.var_expand(match[0], depth=0)
        if value == match[0]:
            return value
        values.append(value)
        return _MARK.format(len(values) - 1)

    words = split_line(_PIECE.sub(mark, line))
    return [_MARKED.sub(lambda match: values[int(match[1])], word) for word in words]
