"""Wishes are taken once, in order; rubbish is removed without harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from jtrain.store.inbox import Command, put, take


def test_commands_are_taken_once_and_in_order(tmp_path: Path) -> None:
    put(tmp_path, Command("checkpoint", by="ada"))
    put(tmp_path, Command("pause"))
    assert [(command.name, command.by) for command in take(tmp_path)] == [("checkpoint", "ada"), ("pause", "")]
    assert take(tmp_path) == []


def test_what_is_no_command_is_removed_and_ignored(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("not json")
    (tmp_path / "2.json").write_text('{"command": "format-disk"}')
    (tmp_path / "3.json").write_text("x" * 100_000)
    (tmp_path / "4.json").write_text('["pause"]')
    assert take(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_command_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="checkpoint, devices, pause, priority, stop"):
        put(tmp_path, Command("paus"))
