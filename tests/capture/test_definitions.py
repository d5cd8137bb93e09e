"""Functions, classes and modules of a notebook as they arrive in a worker."""

from __future__ import annotations

import pytest

from tests.capture.processes import Case, Processes

CASES = {
    "classes within classes and functions": Case(
        """
        class Outer:
            class Inner:
                pass
            def make(self):
                class Local: pass
                return Local()
        inner, local = Outer.Inner(), Outer().make()
        """,
        """
        import pickle
        print(type(pickle.loads(pickle.dumps(inner))) is Outer.Inner, type(local).__qualname__)
        """,
        "True Outer.make.<locals>.Local",
    ),
    "generics, protocols and typed tuples": Case(
        """
        import typing
        T, P = typing.TypeVar("T"), typing.ParamSpec("P")
        UserId = typing.NewType("UserId", int)
        class Box(typing.Generic[T]):
            def get(self, user: UserId) -> T: return self.value
        class Shape(typing.Protocol):
            def area(self) -> float: ...
        class Point(typing.NamedTuple):
            x: int
            y: int = 2
        class Options(typing.TypedDict):
            lr: float
        def wraps(function: typing.Callable[P, T]) -> typing.Callable[P, T]: return function
        box = Box[int](); box.value = 7
        """,
        "print(box.get(1), Point(1), Point._fields, Options(lr=1.0), Shape.__name__, wraps(len) is len)",
        "7 Point(x=1, y=2) ('x', 'y') {'lr': 1.0} Shape True",
    ),
    "abstract classes": Case(
        """
        import abc
        class Model(abc.ABC):
            @abc.abstractmethod
            def size(self): ...
            @property
            def twice(self): return 2 * self.size()
            @classmethod
            def named(cls): return cls.__name__
            @staticmethod
            def factor(): return FACTOR
        class Small(Model):
            def size(self): return super().factor()
        FACTOR = 3
        Model.register(int)
        """,
        """
        print(Small().twice, Small.named(), isinstance(5, Model))
        try: Model()
        except TypeError: print("abstract")
        """,
        "6 Small True\nabstract",
    ),
    "metaclasses and subclass hooks aren't run again": Case(
        """
        class Meta(type):
            def __new__(kind, name, bases, members, *, tag):
                made = super().__new__(kind, name, bases, members)
                made.tag = tag
                return made
            def __init__(cls, *arguments, tag): super().__init__(*arguments)
            def hello(cls): return "hello " + cls.tag
        class Tagged(metaclass=Meta, tag="t"): pass
        class Plugin:
            known = {}
            def __init_subclass__(cls, name, **_): Plugin.known[name] = cls
        class First(Plugin, name="first"): pass
        """,
        """
        print(Tagged.hello(), Plugin.known == {"first": First})
        class Second(Plugin, name="second"): pass
        print(sorted(Plugin.known))
        """,
        "hello t True\n['first', 'second']",
    ),
    "enums": Case(
        """
        import enum
        class Color(enum.Enum):
            RED = 1
            ROUGE = 1
        class Access(enum.IntFlag):
            R, W = 1, 2
            RW = 3
        class Word(str, enum.Enum):
            A = "a"
            @property
            def upper_case(self): return self.value.upper()
        class Labelled(enum.Enum):
            def __new__(cls, value, label):
                made = object.__new__(cls)
                made._value_, made.label = value, label
                return made
            ONE = (1, "one")
        red = Color.RED
        """,
        """
        print(red is Color.RED, Color.ROUGE is red, Access.R | Access.W is Access.RW, Word("a").upper_case)
        print(Labelled.ONE.label, Labelled(1), [color.name for color in Color])
        """,
        "True True True A\none Labelled.ONE ['RED']",
    ),
    "dataclasses": Case(
        """
        import dataclasses
        @dataclasses.dataclass
        class Config:
            size: int
            layers: list = dataclasses.field(default_factory=list)
        @dataclasses.dataclass(slots=True, frozen=True)
        class Slotted:
            x: int = 3
        config = Config(1)
        """,
        """
        print(dataclasses.replace(config, size=2), Config(1).layers is Config(1).layers, Slotted())
        @dataclasses.dataclass
        class Larger(Config):
            extra: int = 0
        try: Larger()
        except TypeError: print("size is still required")
        print(hasattr(Slotted(), "__dict__"))
        """,
        "Config(size=2, layers=[]) False Slotted(x=3)\nsize is still required\nFalse",
    ),
    "pydantic models": Case(
        """
        import pydantic
        LIMIT = 10
        class Settings(pydantic.BaseModel):
            rate: int = 1
            @pydantic.field_validator("rate")
            def check(cls, value):
                if value > LIMIT: raise ValueError("too much")
                return value
        settings = Settings(rate=5)
        """,
        """
        print(settings, Settings(rate="7").rate)
        try: Settings(rate=11)
        except pydantic.ValidationError: print("checked")
        """,
        "rate=5 7\nchecked",
    ),
    "closures share their variables": Case(
        """
        def counter():
            count = 0
            def up():
                nonlocal count
                count += 1
            def read(): return count
            return up, read
        up, read = counter()
        def countdown():
            def step(n): return 0 if n == 0 else step(n - 1)
            return step
        step = countdown()
        """,
        "up(); up()\nprint(read(), step(5))",
        "2 0",
    ),
    "decorators and caches": Case(
        """
        import functools
        @functools.lru_cache(maxsize=7)
        def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
        @functools.singledispatch
        def kind(value): return "object"
        @kind.register
        def _(value: int): return "int"
        class Lazy:
            @functools.cached_property
            def value(self): return fib(10)
            double = functools.partialmethod(lambda self, n: 2 * n, 4)
        lazy = Lazy()
        """,
        "print(fib(30), fib.cache_parameters()['maxsize'], kind(1), kind(''), lazy.value, lazy.double())",
        "832040 7 int object 55 8",
    ),
    "generator and coroutine functions": Case(
        "def numbers():\n    yield LIMIT\nasync def later(): return LIMIT\nLIMIT = 3",
        "import asyncio\nprint(list(numbers()), asyncio.run(later()))",
        "[3] 3",
    ),
    "globals in the bodies of local classes": Case(
        """
        value = 5
        def make():
            class Holder:
                own = 1
                both = own + value
            return Holder
        """,
        "print(make().both)",
        "6",
    ),
    "a name that the cell has, too": Case(
        "def show(): return value\nvalue, run = 1, 2\ndef runs(): return run",
        "value = 10\nprint(show(), runs())",
        "10 the worker's",
    ),
    "an instance of a class that was redefined since": Case(
        ("class Net: version = 1\nold = Net()", "class Net: version = 2\nnew = Net()"),
        "print(type(old).version, type(new).version, type(new) is Net)",
        "1 2 True",
    ),
    "reductions that use globals while they are loaded": Case(
        """
        class Reader:
            def __init__(self): self.source = open_source()
            def __setstate__(self, state):
                self.__dict__.update(state)
                self.again = open_source()
        def open_source(): return TABLE["key"]
        TABLE = {"key": [1]}
        readers = [Reader()]
        """,
        "print(readers[0].again is TABLE['key'], readers[0].source is TABLE['key'])",
        "True True",
    ),
    "functions of another namespace keep it": Case(
        """
        other = {"__name__": "__main__"}
        exec("secret = 5\\ndef first(): return secret\\ndef second():\\n global secret\\n secret += 1", other)
        first, second = other["first"], other["second"]
        """,
        "second()\nprint(first(), 'secret' in globals())",
        "6 False",
    ),
    "modules that no import finds": Case(
        """
        import importlib.util, pathlib, sys, types
        pathlib.Path("deep").mkdir()
        pathlib.Path("deep/side.py").write_text("items = []\\ndef add(): items.append(1)\\nclass Thing: pass")
        spec = importlib.util.spec_from_file_location("side", "deep/side.py")
        side = sys.modules["side"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(side)
        add, thing = side.add, side.Thing()
        made = types.ModuleType("made")
        exec("items = []\\ndef add(): items.append(1)", made.__dict__)
        made_add = made.add
        """,
        "add()\nmade_add()\nprint(side.items, made.items, type(thing) is side.Thing)",
        "[1] [1] True",
    ),
    "a module that was edited and reloaded": Case(
        (
            "import pathlib\npathlib.Path('local.py').write_text('def f(): return 1\\nclass C: value = 1')",
            "import importlib, local\nfrom local import C, f\nc = C()",
            "pathlib.Path('local.py').write_text('def f(): return 22\\nclass C: value = 22')\nimportlib.reload(local)",
        ),
        "print(f(), c.value, local.f())",
        "22 22 22",
    ),
    "submodules": Case(
        """
        import xml.dom.minidom, importlib.metadata, os.path
        import torch.nn.functional as F, numpy.random as random
        def version(): return importlib.metadata.version("torch")
        """,
        "print(xml.dom.minidom.parseString('<a/>').documentElement.tagName, version()[0], F.__name__, random.__name__)",
        "a 2 torch.nn.functional numpy.random",
    ),
    "functions and types of libraries": Case(
        """
        import torch, torch.nn.functional as F
        acts = [torch.relu, F.gelu, torch.Tensor.abs, len, str.upper, torch.float16, torch.device("cpu"), list[int]]
        """,
        "print(float(acts[0](torch.tensor(-1.0))), acts[2](torch.tensor(-2)).item(), acts[4]('x'), *acts[5:])",
        "0.0 2 X torch.float16 cpu list[int]",
    ),
    "standard streams and loggers": Case(
        """
        import logging, sys
        def say(text, to=sys.stdout): print(text, file=to)
        log = logging.getLogger("my.log")
        log.addHandler(logging.StreamHandler())
        """,
        "import sys, logging\nprint(say.__defaults__[0] is sys.stdout, log is logging.getLogger('my.log'))",
        "True True",
    ),
    "decorators of torch": Case(
        """
        import torch
        scale = torch.ones(1, requires_grad=True)
        @torch.no_grad()
        def evaluate(x): return x * scale
        class Net(torch.nn.Module):
            @torch.compile(backend="eager")
            def forward(self, x): return x + scale
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x
            @staticmethod
            def backward(ctx, gradient): return 2 * ctx.saved_tensors[0] * gradient
        net = Net()
        """,
        """
        x = torch.full((1,), 3.0, requires_grad=True)
        Square.apply(x).backward()
        print(evaluate(x).requires_grad, net(x).item(), x.grad.item())
        """,
        "False 4.0 6.0",
    ),
    "what every process has once": Case(
        """
        import os, random, torch
        from os import environ
        from random import random as draw
        from numpy.random import rand
        generator = torch.default_generator
        own = random.Random(3)
        """,
        """
        import numpy, os, random, torch
        random.seed(1), numpy.random.seed(1)
        first = draw(), rand()
        random.seed(1), numpy.random.seed(1)
        print(first == (random.random(), numpy.random.rand()), environ is os.environ)
        print(generator is torch.default_generator, own.random() == random.Random(3).random())
        """,
        "True True\nTrue True",
    ),
    "what only a notebook has": Case(
        """
        def in_notebook():
            try: return get_ipython() is not None
            except NameError: return False
        def show(x): display(x)
        """,
        "display([1])\nshow('two')\nprint(in_notebook())",
        "[1]\ntwo\nFalse",
    ),
    "weak containers": Case(
        "import weakref\nclass K: pass\nk = K()\nvalues, keys = weakref.WeakValueDictionary(a=k), weakref.WeakSet([k])",
        "print(values['a'] is k, k in keys)",
        "True True",
    ),
    "a traceback through a notebook function": Case(
        "def divide(x):\n    return 1 / x  # the line",
        """
        import traceback
        try: divide(0)
        except ZeroDivisionError: print(traceback.format_exc().splitlines()[-4:-2])
        """,
        "['  File \"/tmp/ipykernel_1/0.py\", line 2, in divide', '    return 1 / x  # the line']",
    ),
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """What capturing and working printed, by case."""
    processes = Processes(tmp_path_factory.mktemp("definitions"), CASES)
    captured, worked = processes.capture(), processes.work()
    return {name: (captured[name], worked[name]) for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_definitions_arrive(name: str, printed: dict[str, tuple[str, str]]) -> None:
    captured, worked = printed[name]
    assert captured.startswith("{"), captured
    assert worked.strip() == CASES[name].prints
