"""A YAML file as plain values that remember where they were said.

Scalars follow YAML 1.2's core schema, not YAML 1.1 as PyYAML does: `3e-4` is a number; `no` and `0:30` are text.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import yaml

from jtrain.errors import ConfigError

Place = tuple[str | int, ...]
"""Where a value stands in a document, for example ("training", "epochs")."""


class _Loader(yaml.SafeLoader):
    """Safe, and with YAML 1.2's core schema (yaml.org/spec/1.2.2, 10.3.2) for plain scalars."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}  # type: ignore[misc]

    def construct_core_int(self, node: yaml.ScalarNode) -> int:
        text = self.construct_scalar(node)
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)


_DIGITS = list("0123456789")
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", [*"-+", *_DIGITS]),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        [*"-+.", *_DIGITS],
    ),
    ("merge", "<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_core_int)


class Document:
    """A YAML mapping, and where each of its values was said: a line of the file, or an override."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self._said: dict[Place, str] = {}
        self.data = self._parse(text)

    def _parse(self, text: str) -> dict[str, Any]:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return {}
            if not isinstance(node, yaml.MappingNode):
                raise ConfigError(f"{self.file}: a config is a mapping of sections, such as `training: {{epochs: 3}}`")
            self._note_lines(node, (), ())
            return dict(loader.construct_document(node))
        except yaml.YAMLError as error:
            raise ConfigError(_sentence(self.file, error)) from error
        finally:
            loader.dispose()

    def _note_lines(self, node: yaml.Node, place: Place, outer: tuple[yaml.Node, ...]) -> None:
        self._said.setdefault(place, f"{self.file}, line {node.start_mark.line + 1}")
        if node in outer:
            raise ConfigError(f"{self.said(place)}: {dotted(place)} contains itself")
        outer = (*outer, node)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._note_lines(item, (*place, index), outer)
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*place, str(key.value))
                line = f"{self.file}, line {key.start_mark.line + 1}"
                if inner in self._said:
                    raise ConfigError(f"{line}: {dotted(inner)} is there twice; first at {self._said[inner]}")
                self._said[inner] = line
                self._note_lines(value, inner, outer)

    def override(self, override: str) -> None:
        """Apply `section.key=value`; the value is read as YAML."""
        said = f"--set {override}"
        path, equals, text = override.partition("=")
        keys = tuple(path.strip().split("."))
        if not equals or not all(keys):
            raise ConfigError(f"{said}: write it as section.key=value, for example training.learning_rate=3e-4")
        try:
            value = yaml.load(text, _Loader)
        except yaml.YAMLError as error:
            raise ConfigError(_sentence(said, error)) from error
        inside = self.data
        for depth, key in enumerate(keys[:-1], start=1):
            inside = _section_in(inside, key)
            if not isinstance(inside, dict):
                raise ConfigError(f"{said}: {dotted(keys[:depth])} is {inside!r}, which has no keys")
        inside[keys[-1]] = value
        self._said[keys] = said

    def said(self, place: Place) -> str:
        """Where the value at `place`, or what it stands in, was said."""
        while place and place not in self._said:
            place = place[:-1]
        return self._said.get(place, self.file)


def _section_in(data: dict[str, Any], key: str) -> Any:
    """The mapping at `key`: made when there is none, made from a part written as a plain text, no longer shared."""
    value = data.get(key)
    if isinstance(value, str):
        value = {"name": value}
    data[key] = dict(value or {}) if value is None or isinstance(value, dict) else value
    return data[key]


def dotted(place: Place) -> str:
    """`place` as people write it: training.epochs."""
    return ".".join(map(str, place))


def _sentence(said: str, error: yaml.YAMLError) -> str:
    """PyYAML's error in one line, with the line of the file."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"{said}: this is not YAML: {error}"
    where = f"{said}, line {error.problem_mark.line + 1}"
    problem = error.problem or "this is not YAML"
    if "could not determine a constructor" in problem:
        tag = problem.rpartition(" ")[2]
        return f"{where}: tag {tag} is not allowed: a config holds plain values only"
    return f"{where}: {problem}" + (f" ({error.context})" if error.context else "")
