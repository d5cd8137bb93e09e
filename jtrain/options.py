"""Every option of a run, declared once.

The magic's and the program's command lines, the YAML keys, `--help`, completion and the table in the README are all
made from the fields of `RunOptions`: to add an option, add a field. (`jtrain.optionline` reads and prints them.)
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from jtrain.errors import nearest
from jtrain.optiontable import Option, check

HIGHEST_PRIORITY = 1_000_000


def _text(value: Any) -> Any:
    """A number or a list (`gpus=2`, `gpus=[0, 2]`) as it is written on a command line."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list | tuple):
        # One device is a list too: without the comma it would be a number of devices.
        return ",".join(map(str, value)) + ("," if len(value) == 1 else "")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("it takes a number")
    return value


def _precision(value: Any) -> Any:
    """YAML 1.1 reads `no` as False."""
    return "no" if value is False else value


def _names(value: Any) -> Any:
    """Names of variables: `"a,b"`, or a list of such texts."""
    if not isinstance(value, str | Sequence):
        return value
    texts = [value] if isinstance(value, str) else value
    names = [name.strip() for text in texts for name in str(text).split(",") if name.strip()]
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"{name!r} is no name of a variable; write names with commas between them: model,history")
    return tuple(dict.fromkeys(names))


def _pairs(value: Any) -> Any:
    """`key=value` texts as a dict."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, Mapping):
        return {str(key): text if isinstance(text, str) else json.dumps(text) for key, text in value.items()}
    if not isinstance(value, Sequence):
        return value
    pairs = {}
    for item in value:
        key, equals, text = str(item).partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{item!r} is written as key=value")
        pairs[key.strip()] = text
    return pairs


def _environment(value: Any) -> Any:
    pairs = _pairs(value)
    for name in pairs if isinstance(pairs, dict) else ():
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ValueError(f"{name!r} is no name of an environment variable")
    return pairs


def _assignments(value: Any) -> Any:
    """`section.key=value` texts, in order; a dict's values are written as JSON, which YAML reads."""
    if isinstance(value, Mapping):
        return tuple(f"{key}={json.dumps(item)}" for key, item in value.items())
    texts = (value,) if isinstance(value, str) else value
    for text in texts if isinstance(texts, Sequence) else ():
        if not str(text).partition("=")[0].strip() or "=" not in str(text):
            raise ValueError(f"{text!r} is written as section.key=value")
    return tuple(texts) if isinstance(texts, Sequence) else texts


_EVERY = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_STEPS = {"step", "steps"}
_SECONDS = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _interval(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"{value} of what? Write {value}steps, or {value}s, {value}min, {value}h")
    text = value.strip().lower()
    match = _EVERY.fullmatch(text)
    if not text:
        return ""
    if match is None:
        raise ValueError("it is a number with a unit, such as 500steps, 30s, 10min or 2h")
    number, unit = match[1], match[2]
    if not unit:
        raise ValueError(f"{number} of what? Write {number}steps, or {number}s, {number}min, {number}h")
    if unit not in {*_STEPS, *_SECONDS}:
        close = nearest(unit, ["steps", "s", "min", "h"])
        hint = f"did you mean {number}{close}? " if close else ""
        raise ValueError(f"{hint}The units are steps, s, min and h, as in 500steps or 10min")
    if not float(number) or (unit in _STEPS and "." in number):
        raise ValueError("it is a whole number of steps above 0, or a time above 0")
    return f"{number}{unit}"


def _time(value: Any) -> Any:
    text = _interval(value)
    if text.endswith(tuple(_STEPS)):
        raise ValueError("it is a time, such as 30min or 6h")
    return text


_BEST = re.compile(r"(.+?):(min|max)(?::([1-9]\d*))?")


def _best(value: Any) -> Any:
    if not isinstance(value, str) or (value.strip() and not _BEST.fullmatch(value.strip())):
        raise ValueError(
            "it is a metric, and whether its smallest or largest value is best: val/accuracy:max, loss:min:2"
        )
    return value.strip()


def _one_line(value: Any) -> Any:
    if isinstance(value, str) and not value.isprintable():
        raise ValueError("it is one line of printable characters")
    return value


_Int = Annotated[int, BeforeValidator(_number)]
_Float = Annotated[float, BeforeValidator(_number)]


class RunOptions(BaseModel):
    """What a run is asked to do; see the help of each field. Unknown options are refused, none can be changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gpus: Annotated[
        str,
        BeforeValidator(_text),
        Option(
            "GPUs to train on, one process on each: every free one and else the CPU (auto), every one (all), a number "
            "of free ones, these (0,2), every free one but never the CPU (free), those chosen in the sidebar or a "
            "GPUPicker (picker), or the CPU (none)",
            "auto|all|N|0,2|free|picker|none",
            "2",
            words=("auto", "all", "free", "picker", "none"),
            meanings=(
                "every free GPU, else the CPU",
                "every GPU",
                "every free GPU, never the CPU",
                "the chosen devices",
                "the CPU",
            ),
        ),
    ] = "auto"
    nproc: Annotated[_Int | None, Field(ge=1), Option("processes (ranks) to train with", "N", "2")] = None
    precision: Annotated[
        Literal["no", "fp16", "bf16"],
        BeforeValidator(_precision),
        Option("mixed precision", "no|fp16|bf16", "bf16", words=("no", "fp16", "bf16")),
    ] = "no"
    accumulate: Annotated[_Int, Field(ge=1), Option("batches whose gradients make one optimizer step", "N", "4")] = 1
    clip_grad: Annotated[
        _Float | None, Field(gt=0), Option("largest norm of the gradient; longer ones are scaled down", "NORM", "1.0")
    ] = None
    seed: Annotated[
        _Int | None,
        Field(ge=0, lt=2**32),
        Option("seed of all random numbers; without it a new one is drawn", "N", "7"),
    ] = None
    name: Annotated[
        str, BeforeValidator(_one_line), Field(max_length=200), Option("a name to find the run by", "NAME", "baseline")
    ] = ""
    tag: Annotated[
        dict[str, str],
        BeforeValidator(_pairs),
        Option("a label; may be given several times", "KEY=VALUE", "project=digits"),
    ] = Field(default_factory=dict)
    config: Annotated[
        str,
        Option(
            "YAML file with the sections model, data, training and resource", "FILE", "train.yaml", completes="file"
        ),
    ] = ""
    set: Annotated[
        tuple[str, ...],
        BeforeValidator(_assignments),
        Option("a value that replaces one of the config; may be given several times", "KEY=VALUE", "training.epochs=5"),
    ] = ()
    checkpoint_every: Annotated[
        str,
        BeforeValidator(_interval),
        Option("how often to write a checkpoint, in steps or in time", "500steps|10min|2h|30s", "10min"),
    ] = ""
    keep: Annotated[_Int, Field(ge=1), Option("newest checkpoints to keep", "N", "3")] = 3
    keep_best: Annotated[
        str,
        BeforeValidator(_best),
        Option("besides, the best N (or one) by a metric's latest value", "METRIC:min|max[:N]", "val/accuracy:max"),
    ] = ""
    keep_every: Annotated[
        str, BeforeValidator(_time), Option("besides, one checkpoint of every such time", "6h|30min", "6h")
    ] = ""
    resume: Annotated[
        str,
        Option(
            "go on from the newest unfinished run of this cell (auto), from a run, or from one checkpoint of it",
            "auto|RUN|RUN/CHECKPOINT",
            "auto",
            words=("auto",),
            completes="checkpoint",
        ),
    ] = ""
    max_restarts: Annotated[
        _Int, Field(ge=0), Option("how often to start again from the last checkpoint when a process dies", "N", "2")
    ] = 0
    priority: Annotated[
        _Int,
        Field(ge=-HIGHEST_PRIORITY, le=HIGHEST_PRIORITY),
        Option("place among waiting runs: higher ones start first", "N", "10"),
    ] = 0
    background: Annotated[bool, Option("return at once with a Run instead of waiting")] = False
    inputs: Annotated[
        tuple[str, ...],
        BeforeValidator(_names),
        Option("further variables that the run gets", "NAMES", "vocabulary", short="-i", completes="variable"),
    ] = ()
    outputs: Annotated[
        tuple[str, ...],
        BeforeValidator(_names),
        Option("variables that come back from rank 0", "NAMES", "model,history", short="-o", completes="assigned"),
    ] = ()
    env: Annotated[
        dict[str, str],
        BeforeValidator(_environment),
        Option("an environment variable of the run; may be given several times", "NAME=VALUE", "HF_HUB_OFFLINE=1"),
    ] = Field(default_factory=dict)
    launcher: Annotated[bool, Option("show a form with these options and a launch button (only above a cell)")] = False
    dry_run: Annotated[bool, Option("only say what would run, on which devices, and what would be sent to it")] = False
    share_devices: Annotated[bool, Option("also take devices that other runs are using")] = False
    on: Annotated[Literal["local"], Option("where to run", "local", "local", words=("local",))] = "local"

    @property
    def checkpoint_every_steps(self) -> int | None:
        """Optimizer steps between checkpoints, or None when they are not counted in steps."""
        match = _EVERY.fullmatch(self.checkpoint_every)
        return int(match[1]) if match and match[2] in _STEPS else None

    @property
    def checkpoint_every_s(self) -> float | None:
        """Seconds between checkpoints, or None when they are not counted in time."""
        return _seconds(self.checkpoint_every)

    @property
    def keep_every_s(self) -> float | None:
        """Seconds between checkpoints that are kept besides the newest, or None when there are no such ones."""
        return _seconds(self.keep_every)

    @property
    def best_by(self) -> tuple[str, bool, int]:
        """The metric by which the best checkpoints are kept ("": none), whether its largest values are best, and how
        many are kept."""
        match = _BEST.fullmatch(self.keep_best)
        return (match[1], match[2] == "max", int(match[3] or 1)) if match else ("", False, 0)


def _seconds(interval: str) -> float | None:
    match = _EVERY.fullmatch(interval)
    return float(match[1]) * _SECONDS[match[2]] if match and match[2] in _SECONDS else None


def make_options(**options: Any) -> RunOptions:
    """Checked options. Raises OptionError, naming what is wrong, what is valid and what is nearest."""
    return check(RunOptions, options, lambda flag, value: f"{flag.name}={value!r}")
