"""Writes `src/wire.ts` from `jtrain/domain/messages.py`, so that the two sides can't drift apart.

python extension/wire.py            prints it
python extension/wire.py --write    writes it
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from jtrain.domain import messages

TARGET = Path(__file__).parent / "src" / "wire.ts"
_HEAD = "// Written by extension/wire.py from jtrain/domain/messages.py: change it there.\n"
_PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", Any: "unknown"}
_WIDTH = 80


def typescript(hint: Any) -> str:
    """The TypeScript type of a Python annotation. Raises TypeError for one that has no counterpart here."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if is_typeddict(hint):
        return f"I{hint.__name__}"
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " | ".join(f"'{word}'" for word in arguments)
    if origin in (Union, types.UnionType):
        return " | ".join(typescript(argument) for argument in arguments)
    if origin is list:
        inner = typescript(arguments[0])
        return f"({inner})[]" if " " in inner else f"{inner}[]"
    if origin is dict:
        return f"{{ [key: string]: {typescript(arguments[1])} }}"
    if origin in (NotRequired, Required):
        return typescript(arguments[0])
    raise TypeError(f"{hint!r} has no TypeScript counterpart in extension/wire.py")


def _comment(text: str, indent: str = "") -> list[str]:
    lines = [line.strip() for line in text.strip().splitlines()]
    return [f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in lines), f"{indent} */"]


def _interface(record: Any) -> list[str]:
    hints = get_type_hints(record, vars(messages), include_extras=True)
    lines = [*_comment(record.__doc__ or ""), f"export interface I{record.__name__} {{"]
    for name, hint in hints.items():
        optional = "?" if get_origin(hint) is NotRequired else ""
        lines.append(f"  {name}{optional}: {typescript(hint)};")
    return [*lines, "}", ""]


def _alias(name: str, hint: Any) -> list[str]:
    one_line = f"export type {name} = {typescript(hint)};"
    if len(one_line) <= _WIDTH:
        return [one_line, ""]
    members = "\n".join(f"  | {typescript(part)}" for part in get_args(hint))
    return [f"export type {name} =", f"{members};", ""]


def generate() -> str:
    """The text of `wire.ts`."""
    lines = [_HEAD]
    for name in ("Value", "Action"):
        lines += _alias(name, getattr(messages, name))
    for record in vars(messages).values():
        if is_typeddict(record):
            lines += _interface(record)
    return "\n".join(lines + _alias("StreamMessage", messages.StreamMessage))


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        TARGET.write_text(generate())
    else:
        print(generate(), end="")
