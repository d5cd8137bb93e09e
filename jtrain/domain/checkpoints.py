"""What a checkpoint's manifest says, and where in the training it was taken."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

FORMAT_VERSION = 2
MANIFEST = "manifest.json"


def part_files(rank: int) -> tuple[str, str]:
    """The files of one rank: its tensors, and the rest of its state."""
    return f"rank-{rank}.safetensors", f"rank-{rank}.state"


class Beside(BaseModel):
    """A `run.batches` loop that was under way inside the outermost one (`zip` of two): the loader's number, the seed of
    its data, its epoch, and the batches it had given in that epoch."""

    model_config = ConfigDict(extra="forbid")

    feed: int
    seed: int
    epoch: int = 0
    batch: int = 0


class Position(BaseModel):
    """Where a run stands: between two batches, or between two loops.

    `loop`: the ordinal of the outermost `run.batches` call; `epoch` in that call and `batch`es done in that epoch.
    `call`: 0 between two batches, and else which `run.checkpoint()` call it was since the loop before `loop` ended.
    `outer`: the iteration of `run.epochs`, None outside of one; `outer_call` counts the `run.epochs` loops begun, and
    `outer_loop` and `outer_feed` are the next ordinals of loops and loaders at that iteration's start.
    `step`: optimizer steps so far; `micro_step`: batches so far; `phase`: batches accumulated since the last step.
    `loop_epochs`: by the last loop over a loader, how many of the loader's epochs are over; `feed_epochs`: the same for
    loaders that no outermost loop went over, by the order of their preparation. `beside`: loops inside the outermost.
    `feed_lengths`: by that order, how many batches an epoch of a loader had, where that is known.
    `ranks` and `accumulation`: for how many ranks and batches on each an optimizer step is laid out. Batches are
    counted in this layout, also by a run that goes on with another number of ranks (0: that of those that wrote it).
    `run`, `attempt` and `time` (UTC epoch seconds) say who stood there when; a checkpoint may be another run's.
    """

    model_config = ConfigDict(extra="forbid")

    loop: int = 0
    epoch: int = 0
    batch: int = 0
    call: int = 0
    outer: int | None = None
    outer_call: int = 0
    outer_loop: int = 0
    outer_feed: int = 0
    step: int = 0
    micro_step: int = 0
    phase: int = 0
    loop_epochs: dict[int, int] = Field(default_factory=dict)
    feed_epochs: dict[int, int] = Field(default_factory=dict)
    feed_lengths: dict[int, int] = Field(default_factory=dict)
    beside: list[Beside] = Field(default_factory=list)
    ranks: int = 0
    accumulation: int = 0
    run: str = ""
    attempt: int = 0
    time: float = 0.0

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
    metrics: dict[str, float | None] = Field(default_factory=dict)
    """The latest value of each metric of rank 0, but for NaN and infinite ones, which JSON doesn't have."""
    versions: dict[str, str] = Field(default_factory=dict)
    spec: str = ""
    """Digest of the run's spec."""
