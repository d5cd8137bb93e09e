"""Options of a run (interim; the doors helper's full version replaces this)."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_EVERY = re.compile(r"(\d+)\s*(steps?|s|sec|min|m|h)")


class RunOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    gpus: str = "auto"
    nproc: int | None = None
    precision: Literal["no", "fp16", "bf16"] = "no"
    accumulate: int = 1
    clip_grad: float | None = None
    seed: int | None = None
    name: str = ""
    tag: dict[str, str] = Field(default_factory=dict)
    config: str = ""
    set: dict[str, Any] = Field(default_factory=dict)
    checkpoint_every: str = ""
    keep: int = 3
    resume: str = ""
    max_restarts: int = 0
    priority: int = 0
    background: bool = False
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    dry_run: bool = False
    share_devices: bool = False

    @property
    def checkpoint_every_steps(self) -> int | None:
        match = _EVERY.fullmatch(self.checkpoint_every)
        return int(match[1]) if match and match[2].startswith("step") else None

    @property
    def checkpoint_every_s(self) -> float | None:
        match = _EVERY.fullmatch(self.checkpoint_every)
        if not match or match[2].startswith("step"):
            return None
        return int(match[1]) * {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}[match[2]]


def make_options(**options: Any) -> RunOptions:
    return RunOptions(**options)
