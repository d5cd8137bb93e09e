"""Which names a cell takes from the notebook, for each line of Python's grammar, and against Python itself."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable

import pytest

from jtrain.capture.names import free_names
from tests.capture.programs import outcome, random_program

CASES = [
    # assignment
    ("x", "x"),
    ("x = 1; x", ""),
    ("x = x", "x"),
    ("x = y", "y"),
    ("x += 1", "x"),
    ("x = 0; x += 1", ""),
    ("x.a = 1", "x"),
    ("x[i] = 1", "x i"),
    ("x[i] += y", "x i y"),
    ("a, (b, *c) = x; a; b; c", "x"),
    ("a = b = x; a; b", "x"),
    ("x, y = y, 1; x", "y"),
    ("x[(y := 1)] = y", "x y"),
    ("x: int = 1; x", "int"),
    ("x: T", "T"),
    ("x: int; x", "int x"),
    ("x.a: T = 1", "x T"),
    ("from __future__ import annotations\nx: T = 1\ndef f(a: U) -> V: pass", ""),
    ("print(max)", "print max"),
    ("__name__; __file__; __doc__; __builtins__; __debug__", ""),
    # del
    ("del x", "x"),
    ("x = 1; del x; x", ""),
    ("del x; x", "x"),
    ("del x[i], y.a", "x i y"),
    ("if c: del x\nx", "c x"),
    # imports
    ("import a.b.c; a; b", "b"),
    ("import a.b as c; a; c", "a"),
    ("from a import b, c as d; a; b; c; d", "a c"),
    ("from a import *; b", "b"),
    # expressions
    ("a and b or not c", "a b c"),
    ("a if b else c", "a b c"),
    ("f(a, *b, c=d, **e)", "f a b d e"),
    ("f'{a!r:>{b}} {f\"{c}\"} {{d}}'", "a b c"),
    ("a < b < c; a[b:c:d]", "a b c d"),
    ("{a: b, **c}; {d}; [e]; (f,)", "a b c d e f"),
    ("(x := 1) + x", ""),
    ("x + (x := 1)", "x"),
    ("{(x := 1): x, x: y}", "y"),
    ("{a: x, (x := 1): 0}", "a x"),
    ("a and (x := 1); x", "a x"),
    ("(x := 1) and a; x", "a"),
    ("if a and (x := 1): x", "a"),
    ("if not (a and (x := 1)): pass\nelse: x", "a"),
    ("if a or (x := 1): x", "a x"),
    ("if a or (x := 1): pass\nelse: x", "a"),
    ("(x := 1) if a else (x := 2); x", "a"),
    ("x if (x := a) else x", "a"),
    ("a < (x := 1) < (y := 2); x; y", "a y"),
    ("assert a, b", "a b"),
    ("assert (x := a); x", "a x"),
    # comprehensions
    ("[x for x in y]", "y"),
    ("[x for x in x]", "x"),
    ("[y for x in a for y in x if y if b]", "a b"),
    ("[x for x in a for z in x if w]; x", "a w x"),
    ("{k: v for k, v in d.items()}; {s for s in t}; (g for g in h)", "d t h"),
    ("[(z := x) for x in y]; z", "y z"),
    ("[z for x in y if (z := x)]", "y"),
    ("[x for a[0] in y]", "x a y"),
    ("[[x for x in y] for y in z]", "z"),
    ("[lambda: x for x in y]", "y"),
    # functions
    ("def f(a, b=c, *d, e=g, **h) -> i: return a, b, d, e, h", "c g i"),
    ("def f(a: T, /, *args: U, b: V, **kw: W): pass", "T U V W"),
    ("@d(x)\ndef f(): pass", "d x"),
    ("def f(): return x", "x"),
    ("def f(): return x\nx = 1", ""),
    ("def f(): return x\nf()\nx = 1", "x"),
    ("def f(): return x\nx = 1\nf()", ""),
    ("def f(): return x\ng = f\nx = 1", "x"),
    ("def f(): return x\nif c: x = 1", "c x"),
    ("def f(): return x\nfor x in y: pass", "x y"),
    ("def f(): return g()\ndef g(): return x\nx = 1\nf()", ""),
    ("def f(): return g()\ndef g(): return x\nf()\nx = 1", "x"),
    ("def f(): return g()\nf()\ndef g(): pass", "g"),
    ("def f():\n  def g(): return x\n  return g\nx = 1", ""),
    ("if c:\n  x = 1\n  def f(): return x\n  f()\nelse:\n  def f(): return x\n  f()", "c x"),
    ("@d\ndef f(): return x\nx = 1", "d x"),
    ("def f(n): return f(n - 1)", ""),
    ("def f(): x = 1; return x", ""),
    ("def f():\n  if c: x = 1\n  return x", "c"),
    ("def f():\n  return x\n  x = 1", ""),
    ("def f():\n  for i in a: pass\n  return i", "a"),
    ("def f():\n  x: int\n  return x", ""),
    ("def f(): return [x for x in y if x or z]", "y z"),
    ("def f():\n  [(x := a) for a in b]\n  return x", "b"),
    ("def f():\n  import os.path\n  return os", ""),
    ("def f():\n  global x\n  x = 1\nf(); x", "x"),
    ("def f():\n  global x\n  x = 1\n  return x", ""),
    ("def f():\n  global x\n  x += 1", "x"),
    ("def f():\n  global x\n  del x", "x"),
    ("def f():\n  x = 1\n  def g():\n    nonlocal x\n    x += 1\n  return g", ""),
    ("def f():\n  x = 1\n  def g():\n    global x\n    def h(): return x\n    return h\n  return g", "x"),
    ("def f():\n  x = 1\n  return lambda: x", ""),
    ("async def f():\n  async with a as b: await b\n  async for c in d: c", "a d"),
    ("def f(): yield x; y = yield from z; return y", "x z"),
    ("lambda a, b=c: a + b + d", "c d"),
    ("f = lambda: x\nx = 1", ""),
    ("g(lambda: x)\nx = 1", "g x"),
    ("lambda: (x := 1) + x; x", "x"),
    # classes
    ("class A(b, metaclass=c): pass\nA", "b c"),
    ("@d\nclass A: pass", "d"),
    ("class A: x = 1; y = x", ""),
    ("class A: y = x; x = 1", "x"),
    ("x = 1\nclass A: x = x", ""),
    ("class A: x = 1\nx", "x"),
    ("class A:\n  x = 1\n  def f(self): return x", "x"),
    ("class A:\n  x = 1\n  y = [x for i in x]", "x"),
    ("class A:\n  x = 1\n  y = [i for i in x]", ""),
    ("class A:\n  x = 1\n  f = lambda self: x", "x"),
    ("class A:\n  x = 1\n  def f(self, a=x): pass", ""),
    ("class A:\n  x = 1\n  del x\n  y = x", "x"),
    ("class A:\n  global x\n  x = 1\nx", ""),
    ("class A:\n  x: T = y", "T y"),
    ("class A:\n  def f(self): return __class__, super()", "super"),
    ("class A: __module__; __qualname__", ""),
    ("__qualname__", "__qualname__"),
    ("class A:\n  def f(self): return x\nx = 1\nA().f()", ""),
    ("class A:\n  def f(self): return x\nA().f()\nx = 1", "x"),
    ("class A:\n  def f(): return x\n  y = f()\nx = 1", "x"),
    ("@d\nclass A:\n  def f(self): return x\nx = 1", "d x"),
    ("class A:\n  def f(self): return __x", "_A__x"),
    ("class _A: y = __x", "_A__x"),
    ("def f(x):\n  class A: x = x\n  return A", "x"),
    ("def f(x):\n  class A: y = x\n  return A", ""),
    ("class A:\n  class B:\n    def f(self): return A, B", "B"),
    # branches and loops
    ("if c: x = 1\nx", "c x"),
    ("if c: x = 1\nelse: x = 2\nx", "c"),
    ("if c: x = 1\nelif d: x = 2\nelse: raise E\nx", "c d E"),
    ("if True: x = 1\nx", ""),
    ("for i in a: x = i\ni; x", "a i x"),
    ("for i in a: i\nelse: x = 1\nx", "a"),
    ("for x[0] in a: pass", "x a"),
    ("for i in a:\n  x = i\n  break\nelse: raise E\nx; i", "a E"),
    ("for i in a:\n  if x: y\n  x = y = 1", "a x y"),
    ("for i in a:\n  if i: continue\n  else: x = 1\n  x", "a"),
    ("while c: x = 1\nx", "c x"),
    ("while True:\n  x = f()\n  if x: break\nx", "f"),
    ("while True:\n  if c: break\n  x = 1\nx", "c x"),
    ("while x := f(): x\nx", "f"),
    ("while c: pass\nelse: x = 1\nx", "c"),
    ("raise x from y\nz", "x y"),
    # with, try
    ("with a as b, b.c as (d, e): d; e\nb", "a"),
    ("with a: x = 1\nx", "a"),
    ("with suppress(E): x = 1\nx", "suppress E x"),
    ("import contextlib\nwith contextlib.suppress(E): x = 1\nx", "E x"),
    ("try: import x\nexcept E: x = None\nx", "E"),
    ("try: x = 1\nexcept E: pass\nx", "E x"),
    ("try: x = 1\nexcept E: raise\nx", "E"),
    ("try: x = 1\nexcept E: x", "E x"),
    ("try: pass\nexcept E as e: e\ne", "E e"),
    ("try: raise f\nexcept E as e: pass\ne", "f E"),
    ("try: x = 1\nexcept E: y = 1\nelse: x; y = 2\ny", "E"),
    ("try: x = 1\nfinally: x", "x"),
    ("try: x = 1\nfinally: y = 1\nx; y", ""),
    ("try: x = 1\nexcept* E as e: e\nx", "E x"),
    ("class A:\n  try: pass\n  except E as x: pass\n  y = x", "E x"),
    # match
    ("match a:\n  case 1: x = 1\n  case _: x = 2\nx", "a"),
    ("match a:\n  case 1: x = 1\nx", "a x"),
    ("match a:\n  case [b, *c] if b: c\nb", "a b"),
    ("match a:\n  case {'k': b, **c}: b; c", "a"),
    ("match a:\n  case C(b, k=d.e): b", "a C d"),
    ("match a:\n  case (1 | 2) as b: b\n  case str(): b", "a str b"),
    ("match a:\n  case b: pass\nb", "a"),
    ("match a:\n  case b if c: pass\nb", "a c"),
    ("match a:\n  case [b] if c: pass\nb", "a c b"),
    ("match a:\n  case [b, b.c]: pass", "a b"),
    ("def f(a):\n  match a:\n    case [b]: return b\n  return b", ""),
]
TYPE_CASES = [
    ("def f[T: B](x: T) -> U[T]: return T", "B U"),
    ("class A[T](B[T]):\n  x: T\n  def f(self) -> T: pass", "B"),
    ("type X[T] = dict[T, Y]", "dict Y"),
    ("type X = list[X]; x = 1", "list"),
    ("T\ndef f[T](): pass", "T"),
    ("class A:\n  B = 1\n  def f[T: B](self): return B", "B"),
    ("type X = Y\nY = 1\nX", ""),
    ("type X = Y\nX\nY = 1", "Y"),
]


@pytest.mark.parametrize(("source", "names"), CASES, ids=[source for source, _ in CASES])
def test_names_that_may_be_the_notebooks(source: str, names: str) -> None:
    assert set(free_names(ast.parse(source))) == set(names.split())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with Python 3.12")
@pytest.mark.parametrize(("source", "names"), TYPE_CASES)
def test_type_parameters(source: str, names: str) -> None:
    assert set(free_names(ast.parse(source))) == set(names.split())


def test_every_name_has_the_first_line_where_it_is_used() -> None:
    tree = ast.parse("def f():\n  return b\na\nb\nf()\na")
    assert list(free_names(tree, first_line=2).items()) == [("b", 3), ("a", 4)]


def _branches(depth: int) -> str:
    return "".join(f"{'  ' * level}if c{level}:\n" for level in range(depth)) + "  " * depth + "x"


def _functions(count: int) -> str:
    return "".join(f"def f{i}(): return f{i + 1}(), f{i // 2}(), x\n" for i in range(count)) + "f0()"


@pytest.mark.parametrize("program", [_branches(60), _functions(150)])
def test_deep_and_tangled_programs_end(program: str) -> None:
    assert "x" in free_names(ast.parse(program))


@pytest.mark.parametrize("seed", range(40))
def test_a_program_with_only_these_names_does_what_it_does_with_all(seed: int) -> None:
    for number in range(50):
        source = random_program(seed * 1000 + number)
        captured = free_names(ast.parse(source))
        assert outcome(source, captured) == outcome(source), source


@pytest.mark.parametrize("forget", [lambda names: set(list(names)[:-1]), lambda names: set(list(names)[1:])])
def test_the_comparison_can_fail(forget: Callable[[dict[str, int]], set[str]]) -> None:
    sources = [random_program(seed) for seed in range(200)]
    assert any(outcome(source, forget(free_names(ast.parse(source)))) != outcome(source) for source in sources)
