"""The launcher's form: its fields are made from the table of run options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_origin

import anywidget
import traitlets

from jtrain.options import RunOptions
from jtrain.optiontable import Flag, check, flags_of
from jtrain.widgets.showing import Showing, source_of

FIELDS = ("gpus", "nproc", "precision", "accumulate", "checkpoint_every", "keep", "max_restarts", "name")
"""The options that the form asks for; all others stay as they were given to the launcher."""


class LaunchForm(Showing, anywidget.AnyWidget):
    """Shows `fields` with a button; calls `on_launch(values)` for it and `on_change(values)` for every change.

    `values` are texts by option name, as they stand in the form.
    """

    _esm = source_of("common.js", "launcher.js")
    _css = source_of("common.css", "launcher.css")
    title = traitlets.Unicode().tag(sync=True)
    fields = traitlets.List(traitlets.Dict()).tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    command = traitlets.Unicode().tag(sync=True)
    problem = traitlets.Unicode().tag(sync=True)
    notice = traitlets.Unicode().tag(sync=True)
    can_launch = traitlets.Bool().tag(sync=True)

    def __init__(
        self,
        title: str,
        values: dict[str, str],
        *,
        can_launch: bool,
        on_change: Callable[[dict[str, str]], None],
        on_launch: Callable[[dict[str, str]], None],
    ) -> None:
        self._on_change = on_change
        self._on_launch = on_launch
        super().__init__(title=title, fields=fields_of(), values=values, can_launch=can_launch)
        self._listen(self._hear)

    def as_text(self) -> str:
        """The command line that says the same."""
        return self.command

    def _hear(self, content: dict[str, Any]) -> None:
        """A message of a view, maybe on another thread."""
        for kind, act in (("change", self._on_change), ("launch", self._on_launch)):
            given = content.get(kind)
            if isinstance(given, dict):
                act({name: str(given[name])[:200] for name in FIELDS if isinstance(given.get(name), str)})
                self.send({"heard": kind})


def fields_of() -> list[dict[str, Any]]:
    """The form's fields as `launcher.js` draws them, from the table of options."""
    flags = flags_of(RunOptions)
    return [_field(flags[name]) for name in FIELDS]


def _field(flag: Flag) -> dict[str, Any]:
    option = flag.option
    is_closed = get_origin(RunOptions.model_fields[flag.name].annotation) is Literal
    meanings = option.meanings or option.words
    return {
        "name": flag.name,
        "label": flag.name.replace("_", " "),
        "flag": flag.flag,
        "help": option.help,
        "words": [list(pair) for pair in zip(option.words, meanings, strict=True)],
        "is_closed": is_closed,
        "placeholder": option.example,
        "is_number": isinstance(flag.default, int) or option.value == "N",
    }


def values_of(options: RunOptions) -> dict[str, str]:
    """The options as texts of the form."""
    texts = {name: getattr(options, name) for name in FIELDS}
    return {name: "" if value is None else str(value) for name, value in texts.items()}


def options_of(values: Mapping[str, str], others: RunOptions) -> RunOptions:
    """The options in the form, and those of `others` that it doesn't ask for.

    Raises OptionError with a sentence for each value that can't be.
    """
    kept = {name: getattr(others, name) for name in others.model_fields_set if name not in FIELDS}
    flags = flags_of(RunOptions)
    given = {}
    for name, text in values.items():
        default = flags[name].default
        if text.strip() and text.strip() != str(default):
            given[name] = text.strip()
    return check(RunOptions, {**kept, **given}, lambda flag, value: f"{flag.name.replace('_', ' ')} {value}")
