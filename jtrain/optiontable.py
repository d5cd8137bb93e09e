"""What an option is, whatever it is an option of: how it is shown, and how its values are checked.

The options themselves are fields of pydantic models: `RunOptions` in `jtrain.options`, and the arguments of each verb.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_origin

from pydantic import BaseModel, ValidationError

from jtrain.errors import OptionError, nearest

_Model = TypeVar("_Model", bound=BaseModel)
_MOST_CHARACTERS = 200
"""Of an option as an error repeats it."""


@dataclass(frozen=True)
class Option:
    """How an option is shown and written. Its name, type and default are those of the field it stands at.

    `value`: how its value is written ("" for a switch). `words`: values that completion offers; `meanings`: what each
    of them means, where a form has room to say so. `completes`: what else completion offers. A `positional` one is
    written without its name.
    """

    help: str
    value: str = ""
    example: str = ""
    short: str = ""
    words: tuple[str, ...] = ()
    meanings: tuple[str, ...] = ()
    completes: Literal["", "run", "checkpoint", "assigned", "variable", "file", "verb"] = ""
    positional: bool = False


@dataclass(frozen=True)
class Flag:
    """An option together with its field's name and type."""

    name: str
    option: Option
    default: Any
    is_switch: bool
    is_list: bool

    @property
    def flag(self) -> str:
        """How it is called on a command line: `--checkpoint-every`."""
        return self.name.upper() if self.option.positional else "--" + self.name.replace("_", "-")


def flags_of(model: type[BaseModel]) -> dict[str, Flag]:
    """The options of a model by name, in the order in which they are declared."""
    found = {}
    for name, field in model.model_fields.items():
        option = next(item for item in field.metadata if isinstance(item, Option))
        origin = get_origin(field.annotation)
        default = field.get_default(call_default_factory=True) if not field.is_required() else None
        found[name] = Flag(name, option, default, field.annotation is bool, origin in (tuple, dict))
    return found


def check(model: type[_Model], values: Mapping[str, Any], spell: Callable[[Flag, Any], str]) -> _Model:
    """A model made of `values`. `spell(flag, value)` says how the user wrote one of them, for the error's text.

    Raises OptionError with a sentence for each value that can't be.
    """
    flags = flags_of(model)
    if unknown := [name for name in values if name not in flags]:
        raise OptionError("\n".join(unknown_option(name, flags) for name in unknown))
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        sentences: dict[str, str] = {}
        for item in error.errors():
            flag = flags[str(item["loc"][0])]
            given = _shortened(spell(flag, values[flag.name])) if flag.name in values else flag.flag
            sentences.setdefault(flag.name, f"{given}: {_reason(flag, item)}")
        raise OptionError("\n".join(sentences.values())) from None


def _shortened(text: str) -> str:
    """What the user wrote, without the middle where it is very long."""
    half = _MOST_CHARACTERS // 2
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:half]} … {text[-half:]}"


def unknown_option(name: str, flags: Mapping[str, Flag], spelt: str = "") -> str:
    """A sentence about an option that doesn't exist; `spelt` is how the user wrote it."""
    close = nearest(name, flags)
    as_flag = spelt.startswith("-")
    if close:
        hint = f"did you mean {flags[close].flag if as_flag else close}?"
    else:
        shown = [flag.flag if as_flag else flag.name for flag in flags.values() if not flag.option.positional]
        hint = f"there are: {', '.join(shown)}" if shown else "there are no options here"
    return f"unknown option {spelt or name}; {hint}"


def _reason(flag: Flag, item: Any) -> str:
    kind, context = item["type"], item.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind in ("string_too_long", "too_long"):
        return f"it has {len(str(item['input']))} characters; the most are {context['max_length']}"
    if kind == "missing":
        return "it is missing" + _example(flag)
    if kind == "literal_error":
        close = nearest(str(item["input"]), flag.option.words)
        valid = f"can be {_either(flag.option.words)}"
        return f"did you mean {close}? It {valid}" if close else f"it {valid}"
    if kind.startswith(("int", "float")):
        number = "a whole number" if kind.startswith("int") else "a number"
        return f"it takes {number}{_example(flag)}"
    if kind.startswith("bool"):
        return "it is a switch: true or false"
    bounds = {
        "greater_than": "it must be above {gt}",
        "greater_than_equal": "it must be at least {ge}",
        "less_than": "it must be below {lt}",
        "less_than_equal": "it must be at most {le}",
    }
    if kind in bounds:
        return bounds[kind].format_map(context) + _example(flag)
    return f"it is written as {flag.option.value}{_example(flag)}"


def _example(flag: Flag) -> str:
    return f", for example {flag.flag} {flag.option.example}" if flag.option.example else ""


def _either(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
