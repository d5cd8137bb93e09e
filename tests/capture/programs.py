"""Small random programs, and what they do."""

from __future__ import annotations

import random
from collections.abc import Iterable

NAMES = ["a", "b", "c", "d", "e"]
FUNCTIONS = ["f", "g"]
STEPS = 300
"""Loops and calls of a program, after which it is ended."""


class _EndedError(Exception):
    pass


def outcome(source: str, given: Iterable[str] | None = None) -> tuple[list[object], str]:
    """What a program tells and how it ends, with a notebook that has all names, or only those of `given`."""
    told: list[object] = []

    def tell(value: object = None) -> int:
        values = value if isinstance(value, tuple) else (value,)
        told.append([each if isinstance(each, int) else type(each).__name__ for each in values])
        if len(told) > STEPS:
            raise _EndedError
        return len(told)

    names = [*NAMES, *FUNCTIONS]
    notebook = {name: 100 + index for index, name in enumerate(names) if given is None or name in given}
    try:
        exec(compile(source, "<program>", "exec", dont_inherit=True), {**notebook, "tell": tell})
    except Exception as error:  # noqa: BLE001 - whatever the program raises is its outcome
        return told, f"{type(error).__name__}: {error}"
    return told, "ended"


def random_program(seed: int) -> str:
    """A program of assignments, branches, loops, functions and classes over a few names; it always compiles."""
    maker = _Maker(random.Random(seed))
    while True:
        source = "\n".join(maker.block(depth=0)) + "\ntell((" + "".join(maker.name() + ", " for _ in range(2)) + "))"
        try:
            compile(source, "<program>", "exec", dont_inherit=True)
        except SyntaxError:  # such as a name that is used before it is declared global
            continue
        return source


class _Maker:
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._in_loop = False
        self._in_function = False
        self._in_class = False

    def name(self) -> str:
        return self._dice.choice(NAMES)

    def test(self) -> str:
        """An expression that is often true and often false."""
        return self._dice.choice(
            ["tell() % 2", "tell() % 3", f"{self.expression()} == 1", f"tell() % 2 and ({self.name()} := 1)", "True",
             f"tell() % 2 or ({self.name()} := 0)", f"not ({self.name()} := tell() % 2)"]
        )  # fmt: skip

    def expression(self) -> str:
        one, two, dice = self.name(), self.name(), self._dice
        forms = ["1", one, one, f"({one}, {two})[0]", f"tell({one})", f"{dice.choice(FUNCTIONS)}()"]
        if not self._in_class:
            forms += [f"[({one} := {two}) for {self.name()}_ in (1, 2)][0]", f"({one} := {two})"]
        forms += [
            f"[{one} for {two} in ({one}, 1)][-1]",
            f"{one} if tell() % 2 else {two}",
            f"(lambda {one}=1: {two})()",
            f"(lambda: {one})()",
            f"len(f'{{{one}}}')",
            f"sum({one} for {two} in (1,) if {one})",
        ]
        return dice.choice(forms)

    def block(self, depth: int) -> list[str]:
        return [line for _ in range(self._dice.randint(1, 4)) for line in self.statement(depth)]

    def inner(self, depth: int, **place: bool) -> list[str]:
        before = dict(vars(self))
        for key, value in place.items():
            setattr(self, f"_{key}", value)
        lines = ["    " + line for line in self.block(depth + 1)]
        vars(self).update(before)
        return lines

    def statement(self, depth: int) -> list[str]:
        kinds = [self._simple] * 4
        if depth < 3:
            kinds += [self._if, self._for, self._while, self._try, self._function, self._class, self._match, self._with]
        return self._dice.choice(kinds)(depth)

    def _simple(self, depth: int) -> list[str]:
        name = self.name()
        forms = [f"{name} = {self.expression()}", f"{name} += 1", f"tell({name})", self.expression(), f"del {name}"]
        forms += [f"{name}, {self.name()} = {self.expression()}, 2", f"{name}: {self.name()} = 3"]
        forms += [f"{self._dice.choice(FUNCTIONS)} = lambda: {self.expression()}"]
        if self._in_loop:
            forms += ["break", "continue"]
        if self._in_function:
            forms += [f"return {self.expression()}", f"global {name}"]
        return [self._dice.choice([*forms, "raise KeyError"] if depth else forms)]

    def _if(self, depth: int) -> list[str]:
        return [f"if {self.test()}:", *self.inner(depth), *self._else(depth)]

    def _else(self, depth: int) -> list[str]:
        return ["else:", *self.inner(depth)] if self._dice.random() < 0.5 else []

    def _for(self, depth: int) -> list[str]:
        items = self._dice.choice(["range(tell() % 3)", "()", "(1, 2)"])
        return [f"for {self.name()} in {items}:", *self.inner(depth, in_loop=True), *self._else(depth)]

    def _while(self, depth: int) -> list[str]:
        return [f"while {self.test()}:", "    tell()", *self.inner(depth, in_loop=True), *self._else(depth)]

    def _try(self, depth: int) -> list[str]:
        handler = self._dice.choice(["except (KeyError, TypeError):", f"except Exception as {self.name()}:"])
        lines = ["try:", *self.inner(depth), handler, *self.inner(depth), *self._else(depth)]
        return [*lines, "finally:", *self.inner(depth, in_loop=False)] if self._dice.random() < 0.3 else lines

    def _function(self, depth: int) -> list[str]:
        parameter = self._dice.choice(["", f"{self.name()}=1", f"{self.name()}={self.name()}"])
        decorator = ["@(lambda f: f() and f)"] if self._dice.random() < 0.15 else []
        head = f"def {self._dice.choice(FUNCTIONS)}({parameter}):"
        body = self.inner(depth, in_function=True, in_loop=False, in_class=False)
        return [*decorator, head, "    tell()", *body]

    def _class(self, depth: int) -> list[str]:
        body = self.inner(depth, in_class=True, in_function=False, in_loop=False)
        return [f"class {self._dice.choice(FUNCTIONS)}:", *body]

    def _match(self, depth: int) -> list[str]:
        pattern = self._dice.choice(["1", self.name(), f"[{self.name()}, *_]", f"int() as {self.name()}"])
        guard = self._dice.choice(["", f" if {self.test()}"])
        lines = [f"match {self.expression()}:", f"    case {pattern}{guard}:"]
        lines += ["    " + line for line in self.inner(depth)]
        if self._dice.random() < 0.5 and (guard or not pattern.isidentifier()):
            lines += ["    case _:", *("    " + line for line in self.inner(depth))]
        return lines

    def _with(self, depth: int) -> list[str]:
        manager = self._dice.choice(["nullcontext(1)", "suppress(Exception)"])
        return ["from contextlib import *", f"with {manager} as {self.name()}:", *self.inner(depth)]
