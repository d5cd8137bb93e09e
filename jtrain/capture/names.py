"""Which names a cell takes from the notebook: those it reads where it may not have assigned them yet.

The cell is followed as Python would run it, statement by statement; see `reads.py` for what is carried along. Three
things are taken as they nearly always are: a `with` block isn't left early except through `suppress` or `raises`;
creating a class doesn't call its methods unless it has a decorator or keywords; nothing is called through `globals()`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from jtrain.capture.reads import Reads, State, both
from jtrain.capture.scopes import imported_name, pattern_names

_SUPPRESSING = frozenset({"suppress", "raises", "assertRaises"})


def free_names(tree: ast.Module, first_line: int = 1) -> dict[str, int]:
    """The names that the program reads, deletes or augments while they may not be its own yet.

    Gives each with the first line where it is used so; `first_line` is the number of the tree's line 1. Names of
    builtins are among them, since a notebook may have a variable of that name.
    """
    flow = _Flow()
    flow.run(tree)
    return {name: line + first_line - 1 for name, line in sorted(flow.used.items(), key=lambda item: item[1])}


class _Flow(Reads):
    # Expressions whose parts may not be evaluated, or in another order -------------------------------------------

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._certain = both(*self._condition(node))

    def visit_IfExp(self, node: ast.IfExp) -> None:
        true, false = self._condition(node.test)
        self._certain = both(self._branch(true, [node.body]), self._branch(false, [node.orelse]))

    def visit_Compare(self, node: ast.Compare) -> None:
        self._all([node.left, node.comparators[0]])
        start = self._certain
        self._all(node.comparators[1:])
        self._certain = start

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            self._all([key, value])

    # Statements --------------------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if isinstance(node.value, ast.Lambda) and len(names) == len(node.targets):
            self.visit_Lambda(node.value, names)
        else:
            self.visit(node.value)
        self._all(node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._read(node.target.id, node.target.lineno)
        self._all([node.value, node.target])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        is_name = isinstance(node.target, ast.Name)
        self._all([node.value, node.target if node.value or not is_name else None])
        if not self._scopes or self._is_in_class():
            self._annotations([node.annotation])

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self._bind(imported_name(alias))

    visit_ImportFrom = visit_Import

    def visit_Assert(self, node: ast.Assert) -> None:
        start = self._certain
        self._branch(self._condition(node.test)[1], [node.msg])
        self._certain = start  # `python -O` leaves assertions out

    def visit_If(self, node: ast.If) -> None:
        true, false = self._condition(node.test)
        self._certain = both(self._branch(true, node.body), self._branch(false, node.orelse))

    def visit_While(self, node: ast.While) -> None:
        true, false = self._condition(node.test)
        self._loop(true, node.body, false, node.orelse)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._loop(self._certain, [node.target, *node.body], self._certain, node.orelse)

    visit_AsyncFor = visit_For

    def _loop(self, start: State, body: Sequence[ast.AST], after: State, orelse: Sequence[ast.AST]) -> None:
        self._loops.append(None)
        self._branch(start, body)
        breaks = self._loops.pop()
        self._certain = both(breaks, self._branch(after, orelse))

    def visit_Break(self, node: ast.Break) -> None:
        self._loops[-1] = both(self._loops[-1], self._certain)
        self._certain = None

    def _leave(self, node: ast.AST) -> None:
        self.generic_visit(node)
        self._certain = None

    visit_Return = visit_Raise = visit_Continue = _leave

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        start = self._certain
        for item in node.items:
            self._all([item.context_expr, item.optional_vars])
        self._all(node.body)
        if any(_suppresses(item.context_expr) for item in node.items):
            self._certain = start

    visit_AsyncWith = visit_With

    def visit_Try(self, node: ast.Try) -> None:
        start = self._certain
        end = self._branch(start, [*node.body, *node.orelse])
        for handler in node.handlers:
            self._certain = start
            self._all([handler.type])
            self._bind(handler.name)
            self._all(handler.body)
            end = both(end, self._certain)
        final = self._branch(start, node.finalbody)
        self._certain = None if end is None or final is None else end | final

    visit_TryStar = visit_Try  # type: ignore[assignment]

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        rest, end = self._certain, None
        for case in node.cases:
            self._certain = rest
            self._match(case.pattern)
            true, false = self._condition(case.guard) if case.guard else (self._certain, None)
            end = both(end, self._branch(true, case.body))
            is_last = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            rest = false if is_last else rest
        self._certain = both(end, rest)

    def _match(self, pattern: ast.pattern) -> None:
        """A pattern compares first; then it binds what it captured."""
        parts = list(ast.walk(pattern))
        self._all(part for part in parts if isinstance(part, ast.expr))
        for part in parts:
            for name in pattern_names(part):
                self._bind(name)


def _suppresses(manager: ast.expr) -> bool:
    called = manager.func if isinstance(manager, ast.Call) else manager
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _SUPPRESSING
