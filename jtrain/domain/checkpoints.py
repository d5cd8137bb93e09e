"""What a checkpoint's manifest says, and where in the training it was taken."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

FORMAT_VERSION = 1
MANIFEST = "manifest.json"


class Position(BaseModel):
    """Where a run stands between two batches.

    `loop`: the ordinal of the `run.batches` call; `epoch` in that call and `batch`es done in that epoch; `outer`: the
    iteration of `run.epochs`, with `outer_loop`, the ordinal at that iteration's start; None outside of one.
    `step`: optimizer steps so far; `micro_step`: batches so far; `phase`: batches accumulated since the last step.
    `data_epochs`: for each loader, in the order of their preparation, how many of its epochs are over.
    """

    model_config = ConfigDict(extra="forbid")

    loop: int = 0
    epoch: int = 0
    batch: int = 0
    outer: int | None = None
    outer_loop: int = 0
    step: int = 0
    micro_step: int = 0
    phase: int = 0
    data_epochs: list[int] = Field(default_factory=list)

    @property
    def name(self) -> str:
        """What a checkpoint taken here is called."""
        return f"step-{self.step:06d}" + (f".{self.phase}" if self.phase else "")


class FileEntry(BaseModel):
    """One file of a checkpoint: its size and xxh3-128 digest (hexadecimal)."""

    size_bytes: int
    digest: str


class Manifest(BaseModel):
    """Written last: a checkpoint without a manifest that fits its files is none. `time` in UTC epoch seconds."""

    format: int = FORMAT_VERSION
    run_id: str
    step: int
    time: float
    world_size: int
    position: Position
    files: dict[str, FileEntry]
    versions: dict[str, str] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)
