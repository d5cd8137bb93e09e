"""Option lines: reading them, and printing the options' help and table.

Serves the magic, the program `jtrain` and every verb. Nothing here exits or prints: wrong lines raise OptionError.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from jtrain.errors import OptionError
from jtrain.options import RunOptions
from jtrain.optiontable import Flag, check, flags_of, unknown_option

_Model = TypeVar("_Model", bound=BaseModel)
_HELP_WORDS = ("--help", "-h")


def split_line(line: str) -> list[str]:
    """The words of a line, quoted as in a shell. Raises OptionError for a quotation that doesn't end."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise OptionError(f"a quotation mark in {line.strip()!r} has no partner ({error})") from None


@dataclass
class ReadWords:
    """What a line said: values by option name, words that belong to no option, and whether help is wanted."""

    values: dict[str, Any] = field(default_factory=dict)
    spelt: dict[str, str] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)
    wants_help: bool = False


def read_words(words: Sequence[str], flags: Mapping[str, Flag]) -> ReadWords:
    """Sort words into options and the rest; the words after `--` belong to the rest, whatever they are.

    Values are still texts. Raises OptionError for an unknown option or a missing value.
    """
    read = ReadWords()
    pending = list(words)
    while pending:
        word = pending.pop(0)
        if word == "--":
            read.rest += [word, *pending]
            break
        if word in _HELP_WORDS:
            read.wants_help = True
        elif _is_option(word):
            _read_option(word, pending, flags, read)
        else:
            read.rest.append(word)
    return read


def _is_option(word: str) -> bool:
    """`-5` is a number."""
    return len(word) > 1 and word[0] == "-" and (word[1] == "-" or word[1].isalpha())


def _read_option(word: str, pending: list[str], flags: Mapping[str, Flag], read: ReadWords) -> None:
    flag, spelt, attached = _find(word, flags)
    if flag.is_switch:
        value: str | bool = True if attached is None else attached
    elif attached is not None:
        value = attached
    elif pending and not _is_option(pending[0]):
        value = pending.pop(0)
    else:
        raise OptionError(f"{spelt} needs a value: {spelt} {flag.option.value}")
    while isinstance(value, str) and flag.is_list and value.endswith(",") and pending:
        value += pending.pop(0)  # written with a space after the comma: model, history
    read.spelt[flag.name] = f"{spelt} {value}" if not flag.is_switch else spelt
    if flag.is_list:
        read.values.setdefault(flag.name, []).append(value)
    else:
        read.values[flag.name] = value


def _find(word: str, flags: Mapping[str, Flag]) -> tuple[Flag, str, str | None]:
    """The option a word names, how it is spelt, and the value attached to it (`--gpus=2`, `-oa,b`)."""
    if word.startswith("--"):
        spelt, equals, value = word.partition("=")
        name = spelt[2:].replace("-", "_")
        if name in flags and not flags[name].option.positional:
            return flags[name], spelt, value if equals else None
        raise OptionError(unknown_option(name, flags, spelt))
    spelt, value = word[:2], word[2:].removeprefix("=")
    for flag in flags.values():
        if flag.option.short == spelt:
            return flag, spelt, value or None
    # One dash instead of two is the usual slip.
    raise OptionError(unknown_option(word[1:].partition("=")[0].replace("-", "_"), flags, word.partition("=")[0]))


def read_model(words: Sequence[str], model: type[_Model], command: str) -> _Model:
    """The words after a verb as its arguments: options by name, the rest by position.

    A list among the positional arguments takes all words that are left. `command` is how the verb is called.
    """
    flags = flags_of(model)
    read = read_words(words, flags)
    rest = [word for word in read.rest if word != "--"]
    for flag in flags.values():
        if flag.option.positional and rest:
            read.values[flag.name] = rest if flag.is_list else rest.pop(0)
            rest = [] if flag.is_list else rest
    if rest:
        raise OptionError(f"{command}: {rest[0]!r} is one word too many; it is written as {usage(command, flags)}")
    return check(model, read.values, lambda flag, value: _spell(read, flag, value))


def read_options(line: str, words: Sequence[str] | None = None) -> tuple[RunOptions, ReadWords]:
    """The run options in a magic's line (or in its `words`), and how it was read.

    Raises OptionError for everything that can't be, words that are no option among it.
    """
    flags = flags_of(RunOptions)
    read = read_words(split_line(line) if words is None else words, flags)
    if read.rest and not read.wants_help:
        raise OptionError(_stray(read, flags))
    return check_words(read), read


def check_words(read: ReadWords, also: Mapping[str, Any] | None = None) -> RunOptions:
    """Run options made of the values that were read; those in `also` count where the line says nothing."""
    values = {**(also or {}), **read.values}
    return check(RunOptions, values, lambda flag, value: _spell(read, flag, value))


def _spell(read: ReadWords, flag: Flag, value: Any) -> str:
    return read.spelt.get(flag.name, f"{flag.flag} {value}".rstrip())


def _stray(read: ReadWords, flags: Mapping[str, Flag]) -> str:
    word = read.rest[0]
    if word == "--":
        return "`--` is for scripts on the command line; a cell has no arguments"
    last = next((flags[name] for name in reversed(read.spelt) if flags[name].is_list), None)
    if last is not None and word.isidentifier():
        return f"unexpected {word!r}: write names with commas between them, as in {last.flag} {last.option.example}"
    name = word.replace("-", "_")
    if name in flags:
        return f"unexpected {word!r}; did you mean {flags[name].flag}?"
    return f"unexpected {word!r}: every option begins with a dash (--help shows all); quote values that have spaces"


def options_line(options: RunOptions) -> str:
    """The options that differ from their defaults, as they are written on a line that `read_options` reads."""
    flags = flags_of(RunOptions)
    parts = []
    for name, value in options.model_dump(exclude_defaults=True).items():
        flag = flags[name]
        if flag.is_switch:
            parts.append(flag.flag)
        elif isinstance(value, dict):
            parts += [f"{flag.flag} {shlex.quote(f'{key}={item}')}" for key, item in value.items()]
        elif name == "set":
            parts += [f"{flag.flag} {shlex.quote(item)}" for item in value]
        else:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            parts.append(f"{flag.flag} {shlex.quote(text)}")
    return " ".join(parts)


# Printing ------------------------------------------------------------------------------------------------------------


def usage(command: str, flags: Mapping[str, Flag]) -> str:
    """A command with its positional arguments."""
    parts = []
    for flag in flags.values():
        if flag.option.positional:
            shown = flag.flag + ("…" if flag.is_list else "")
            parts.append(shown if flag.default is None else f"[{shown}]")
    options = any(not flag.option.positional for flag in flags.values())
    return " ".join([command, *parts, *(["[options]"] if options else [])])


def help_of(flags: Mapping[str, Flag], width: int = 100) -> str:
    """The options with their help, one paragraph each."""
    left = {name: _left(flag) for name, flag in flags.items()}
    column = min(max(map(len, left.values()), default=0), 30) + 4
    lines = []
    for name, flag in flags.items():
        told = textwrap.wrap(flag.option.help + _default(flag), width - column)
        head = f"  {left[name]}"
        if len(head) > column - 2:
            lines.append(head)
            head = ""
        lines.append(head.ljust(column) + told[0])
        lines += [" " * column + line for line in told[1:]]
    return "\n".join(lines)


def _left(flag: Flag) -> str:
    if flag.option.positional:
        return flag.flag
    short = f"{flag.option.short}, " if flag.option.short else ""
    return f"{short}{flag.flag} {flag.option.value}".rstrip()


def _default(flag: Flag) -> str:
    if flag.is_switch or flag.default in (None, "", (), {}):
        return ""
    return f" (default: {flag.default})"


def options_table_markdown() -> str:
    """All run options as a Markdown table, for the README."""
    rows = ["| option | what it does | default | example |", "| --- | --- | --- | --- |"]
    for flag in flags_of(RunOptions).values():
        short = f"`{flag.option.short}`, " if flag.option.short else ""
        written = short + f"`{flag.flag} {flag.option.value}".rstrip().replace("|", "\\|") + "`"
        default = "" if flag.is_switch or flag.default in (None, "", (), {}) else f"`{flag.default}`"
        example = f"`{flag.flag}" + (f" {flag.option.example}`" if flag.option.example else "`")
        rows.append(f"| {written} | {flag.option.help} | {default} | {example} |")
    return "\n".join(rows)
