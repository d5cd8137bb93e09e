"""All verbs, by name: the one list behind `%jtrain`, the program `jtrain`, their help and their completion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jtrain.errors import OptionError, nearest
from jtrain.optionline import help_of, read_model, read_words, usage
from jtrain.optiontable import flags_of
from jtrain.verbs import acting, comparing, looking
from jtrain.verbs.answers import Answer, Arguments, OneRun, Shown


@dataclass(frozen=True)
class Verb:
    """A verb: its arguments, and the function that answers. The function's docstring is its help."""

    arguments: type[Arguments]
    act: Callable[[Any], Answer]

    @property
    def name(self) -> str:
        return self.act.__name__

    @property
    def help(self) -> str:
        return (self.act.__doc__ or "").partition("\n")[0]


VERBS = {
    verb.name: verb
    for verb in (
        Verb(OneRun, looking.status),
        Verb(looking.RunsArguments, looking.runs),
        Verb(OneRun, acting.attach),
        Verb(looking.LogsArguments, looking.logs),
        Verb(acting.PauseArguments, acting.pause),
        Verb(acting.ResumeArguments, acting.resume),
        Verb(acting.PauseArguments, acting.stop),
        Verb(looking.CheckpointsArguments, looking.checkpoints),
        Verb(comparing.PlotArguments, comparing.plot),
        Verb(comparing.CompareArguments, comparing.compare),
        Verb(acting.CleanArguments, acting.clean),
        Verb(Arguments, looking.gpus),
        Verb(Arguments, looking.queue),
    )
}


def find_verb(word: str) -> Verb:
    """The verb `word`. Raises OptionError naming the nearest one."""
    if word in VERBS:
        return VERBS[word]
    close = nearest(word, VERBS)
    hint = f"did you mean {close}?" if close else f"there are: {', '.join(VERBS)}"
    raise OptionError(f"there is no {word!r}; {hint}")


def answer(words: Sequence[str], program: str = "%jtrain") -> Answer:
    """What the verb and its arguments in `words` answer. Raises JtrainError for whatever can't be."""
    verb = find_verb(words[0])
    if read_words(words[1:], flags_of(verb.arguments)).wants_help:
        return Shown(help_of_verb(verb, program))
    return verb.act(read_model(words[1:], verb.arguments, f"{program} {verb.name}"))


def help_of_verb(verb: Verb, program: str = "%jtrain") -> str:
    """A verb's usage, help and options."""
    flags = flags_of(verb.arguments)
    return "\n".join([f"{usage(f'{program} {verb.name}', flags)}", "", verb.help, "", help_of(flags)]).rstrip()


def help_of_verbs() -> str:
    """A line for each verb."""
    return "\n".join(f"  {name:<13}{verb.help}" for name, verb in VERBS.items())
