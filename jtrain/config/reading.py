"""From a YAML file and overrides to a checked Config; whatever is wrong is told with its line, all of it at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from jtrain.config.document import Document, Place, dotted
from jtrain.config.sections import Config, DataSection, Part, TrainingSection
from jtrain.errors import ConfigError, nearest
from jtrain.options import RunOptions

_SECTIONS: dict[str, type[BaseModel]] = {
    "model": Part,
    "data": DataSection,
    "training": TrainingSection,
    "resource": RunOptions,
}


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """The config in the YAML file `path`, with `overrides` ("training.learning_rate=3e-4") applied.

    Raises ConfigError, naming file, line and the nearest key, for a file that can't be read, YAML that isn't a
    mapping, unknown or repeated keys, values of a wrong type, and tags that would build objects.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} can't be read as a config: {getattr(error, 'strerror', None) or error}") from error
    return parse_config(text, str(path), overrides)


def parse_config(text: str, file: str = "<config>", overrides: Sequence[str] = ()) -> Config:
    """The same for YAML in `text`; `file` is what messages call it."""
    document = Document(text, file)
    for override in overrides:
        document.override(override)
    for option in ("config", "set"):
        if option in (document.data.get("resource") or {}):
            where = document.said(("resource", option))
            raise ConfigError(f"{where}: resource.{option} is for the command line: a config names no other config")
    try:
        # A section without keys (`training:`) is read as None.
        config = Config.model_validate({name: value for name, value in document.data.items() if value is not None})
        config.run_options()
    except ValidationError as error:
        raise ConfigError("\n".join(_sentences(document, error))) from error
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error
    return config


def _sentences(document: Document, error: ValidationError) -> list[str]:
    """A sentence for each place that is wrong, in the order of the file."""
    problems: dict[Place, list[str]] = {}
    for item in error.errors():
        place = _place_in(document.data, item["loc"])
        if item["type"] in ("extra_forbidden", "missing"):
            place = _place_in(document.data, item["loc"][:-1])
            place = (*place, item["loc"][-1])
        problems.setdefault(place, []).append(_problem(place, item["type"], item["msg"], item["input"]))
    return [f"{document.said(place)}: {' or '.join(dict.fromkeys(found))}" for place, found in problems.items()]


def _place_in(data: Any, loc: tuple[str | int, ...]) -> Place:
    """The part of pydantic's `loc` that exists in `data`: it also names the members of unions."""
    place: Place = ()
    for key in loc:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            continue
        place = (*place, key)
    return place


def _problem(place: Place, kind: str, message: str, value: Any) -> str:
    if kind == "extra_forbidden":
        return f"unknown key {dotted(place)}{_hint(place)}"
    if kind == "missing":
        return f"{dotted(place)} is missing"
    reason = message.removeprefix("Value error, ")
    return f"{dotted(place)} is {value!r}: {reason[:1].lower()}{reason[1:]}"


def _hint(place: Place) -> str:
    """The nearest key of the same section, or the section where the key belongs."""
    key, section = str(place[-1]), str(place[0])
    if len(place) == 1:
        known = set(Config.model_fields)
    else:
        known = set((_SECTIONS.get(section, Part) if len(place) == 2 else Part).model_fields)
    homes = [name for name, model in _SECTIONS.items() if key in model.model_fields and name != section]
    if homes:
        return f"; {key} belongs in the section {' or '.join(homes)}"
    close = nearest(key.replace("-", "_"), known)
    return f"; did you mean {close}?" if close else f"; there are: {', '.join(sorted(known))}"
