"""Run ids: two words and a number, easy to say and to type."""

from __future__ import annotations

import random

_FIRST = tuple(
    """
    amber bold brave brisk calm clear clever cosy crisp deft eager early fair fleet fond frank fresh gentle glad
    golden grand happy hardy jolly keen kind lively lucky mellow merry mild neat nimble noble plain polite proud
    quick quiet rapid ready rosy sharp shiny silent smart snug solid spry steady still sunny swift tidy trusty
    vivid warm wise witty young zesty
    """.split()  # noqa: SIM905 - a word a line would hide the code below
)
_SECOND = tuple(
    """
    ant badger bear beaver bee bison cat crane crow deer dove duck eagle elk falcon ferret finch fox frog gecko
    goose hare hawk heron horse ibis jay koala lark lemur lion lynx magpie marten mole moose mouse newt ocelot
    orca otter owl panda parrot pike puffin quail rabbit raven robin salmon seal shrew sparrow squid stork swan
    tapir tern toad trout turtle viper vole walrus weasel whale wolf wren yak zebra
    """.split()  # noqa: SIM905 - a word a line would hide the code below
)


def new_run_id(rng: random.Random | None = None) -> str:
    """A random id such as `brisk-otter-7`; about 4 million of them exist, so check whether it is taken."""
    rng = rng or random.SystemRandom()
    return f"{rng.choice(_FIRST)}-{rng.choice(_SECOND)}-{rng.randrange(1, 1000)}"
