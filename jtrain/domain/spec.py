"""A run's spec: everything needed to start it again, written once and never changed."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from jtrain.options import RunOptions

SPEC_VERSION = 1
CALL_PREFIX = "_jtrain_"
"""Before `fn`, `args` and `kwargs` in the payload of a function, whose own globals may well be called `args`."""


class Source(BaseModel):
    """The code of a run.

    `cell`: `text` is the cell's body, whose first line is line `first_line` of the notebook cell shown as `filename`.
    `script`: `filename` is run as the main program with `argv`; `text` is a copy of it for the record.
    `function`: the payload holds `fn`, `args` and `kwargs` behind CALL_PREFIX; `text` is its source when it is known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["cell", "script", "function"]
    text: str = ""
    filename: str = ""
    first_line: int = 1
    argv: tuple[str, ...] = ()


class RunSpec(BaseModel):
    """What a run is.

    `payload_digest` covers the captured bytes (xxh3-128, hexadecimal; empty when nothing is captured). `resumed_from`:
    `RUN/CHECKPOINT` of another run whose state this one started from. `created` in UTC epoch seconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = SPEC_VERSION
    id: str
    name: str
    created: float
    seed: int
    source: Source
    options: RunOptions
    config: dict[str, Any] = Field(default_factory=dict)
    captured: tuple[str, ...] = ()
    payload_digest: str = ""
    workdir: str = ""
    sys_path: tuple[str, ...] = ()
    notebook: str = ""
    resumed_from: str = ""
    user: str = ""
    host: str = ""
    python: str = ""
    packages: dict[str, str] = Field(default_factory=dict)
