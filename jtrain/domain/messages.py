"""What the server and the browser say to each other: data only, the one source of `extension/src/wire.ts`.

Answers of the REST routes end in `Answer`, messages of the stream in `Message`, what the browser sends in `Wish`.
Times are UTC epoch seconds, devices are named by UUID. JSON has no NaN and no infinity, so a `Value` that is no
finite number travels as the word that JavaScript's `Number()` understands.

A reader's place in a series or a log is a cursor, which says how much of which attempt it has: so a browser that comes
back, even to another server process, says where it stopped and gets exactly what it lacks.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

Value = float | Literal["NaN", "Infinity", "-Infinity"]
Action = Literal["pause", "resume", "stop", "priority"]


class Cursor(TypedDict):
    """How much of attempt `attempt` a reader has: points of a series, or bytes of a log."""

    attempt: int
    count: int


# Devices -------------------------------------------------------------------------------------------------------


class ProcessRow(TypedDict):
    """A process that uses a GPU; `run` is the id of the run of this store that it belongs to."""

    pid: int
    memory_bytes: int | None
    name: str | None
    user: str | None
    run: str | None


class DeviceRow(TypedDict):
    """A GPU or MIG slice and what it does now. A reading that couldn't be taken is null; `reasons` says why.

    `owner` says in words who has it: a run of this store (`owner_run` is its id), another user's run, or a process.
    """

    uuid: str
    kind: Literal["gpu", "mig"]
    label: str
    name: str
    is_simulated: bool
    is_lost: bool
    load_percent: float | None
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    temperature_celsius: float | None
    power_watts: float | None
    processes: list[ProcessRow]
    owner: str
    owner_run: str | None
    reasons: dict[str, str]


class HostRow(TypedDict):
    """The machine, or the container's share of it; `cpu_percent` 100: all usable CPUs are busy."""

    cpu_percent: float | None
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    disk_free_bytes: float | None
    reasons: dict[str, str]


class MachineState(TypedDict):
    """One sample of the machine. `explanation`: where readings come from, and why there are none."""

    time: float
    host: HostRow
    devices: list[DeviceRow]
    explanation: list[str]


class MachineHistory(TypedDict):
    """Readings of the last minutes, as far as somebody looked: a list per device, each as long as `times`."""

    times: list[float]
    cpu_percent: list[float | None]
    memory_used_bytes: list[float | None]
    load_percent: dict[str, list[float | None]]
    device_memory_used_bytes: dict[str, list[float | None]]


class Choice(TypedDict):
    """The devices chosen for the next run, in the sidebar or a GPUPicker."""

    uuids: list[str]


# Runs ----------------------------------------------------------------------------------------------------------


class ProgressRow(TypedDict):
    """How far a run is: optimizer steps, epochs (from 0); `fraction` 0 to 1 or null when unknown."""

    step: int
    total_steps: int
    epoch: int
    epochs: int
    fraction: float | None
    samples_per_s: float | None
    steps_per_s: float | None
    eta_s: float | None
    loss: Value | None


class RunRow(TypedDict):
    """A run in a list. `state` is the state in a word, also `interrupted`; `progress` only for living runs."""

    id: str
    name: str
    state: str
    reason: str
    created: float
    ended: float | None
    attempt: int
    tags: dict[str, str]
    notebook: str
    priority: int
    devices: list[str]
    progress: ProgressRow | None
    can_pause: bool
    can_resume: bool
    can_stop: bool


class RunsAnswer(TypedDict):
    """GET runs: all of the store, newest first."""

    runs: list[RunRow]


class SparksAnswer(TypedDict):
    """GET sparks?id=A&id=B: each run's main metric as it went, at most 60 values."""

    sparks: dict[str, list[Value]]


class CheckpointRow(TypedDict):
    """A checkpoint of a run."""

    name: str
    step: int
    time: float
    size_bytes: int | None
    world_size: int | None
    is_sound: bool
    problem: str


class EventRow(TypedDict):
    """A fact of the run's journal."""

    number: int
    time: float
    kind: str
    reason: str


class RunAnswer(TypedDict):
    """GET runs/ID: everything about one run but its series and logs. `spec` and `provenance` are shown as they are."""

    run: RunRow
    metrics: list[str]
    num_ranks: int
    num_attempts: int
    events: list[EventRow]
    checkpoints: list[CheckpointRow]
    notices: list[str]
    source: str
    source_name: str
    options: str
    error: str
    spec: dict[str, Any]
    provenance: dict[str, Any]
    folder: str


class SeriesRow(TypedDict):
    """Points of one metric, downsampled when `is_whole` is false (lowest and highest of each stretch stay).

    `count` is the number of points there are between the asked ends; `cursor` is where the stream goes on.
    """

    name: str
    steps: list[int]
    times: list[float]
    values: list[Value]
    count: int
    is_whole: bool
    cursor: Cursor


class MetricsAnswer(TypedDict):
    """GET runs/ID/metrics?name=A&name=B&max_points=2000[&axis=step|time&from=X&to=Y]: all metrics without a name."""

    series: list[SeriesRow]


class SamplesAnswer(TypedDict):
    """GET runs/ID/samples?max_points=1000: readings of the run's devices (`cpu` for a run on the CPU), over all
    attempts. `labels` names them."""

    times: list[float]
    labels: dict[str, str]
    load_percent: dict[str, list[float | None]]
    memory_used_bytes: dict[str, list[float | None]]
    memory_total_bytes: dict[str, float | None]


class LogAnswer(TypedDict):
    """GET runs/ID/logs?rank=0&lines=1000: the end of a rank's log, colours (SGR escape codes) still in it.

    `skipped` says whether older lines were left out; the stream goes on from `cursor`."""

    rank: int
    text: str
    skipped: bool
    cursor: Cursor


class ActionWish(TypedDict):
    """POST runs/ID/actions. `checkpoint` is for resume, `priority` for priority."""

    action: Action
    checkpoint: NotRequired[str]
    priority: NotRequired[int]


class ActionAnswer(TypedDict):
    """What was done, in a sentence. `run` is another one than was asked for when a resume made a new run."""

    run: str
    text: str


class ProblemAnswer(TypedDict):
    """The body of every answer that isn't 2xx: a sentence for the user."""

    message: str


# The stream ----------------------------------------------------------------------------------------------------


class WatchWish(TypedDict):
    """What the browser wants to see from now on; each wish replaces the one before.

    `machine`: samples once a second. `runs`: changes of the list. `run_ids`: the runs to follow; for each, series go on
    from the cursors in `series` (a metric without one from its beginning, downsampled), logs of the ranks in `logs`.
    """

    type: Literal["watch"]
    machine: bool
    runs: bool
    follow: list[FollowWish]


class FollowWish(TypedDict):
    """One run to follow. `metrics` null: all of them."""

    run: str
    metrics: list[str] | None
    series: dict[str, Cursor]
    logs: dict[str, Cursor]
    samples: bool


class HelloMessage(TypedDict):
    """The first message of a connection. `server` changes when the server was started anew. `notebook_dir`: the folder
    that paths in the browser start from; empty when it is no folder of this machine."""

    type: Literal["hello"]
    seq: int
    server: str
    notebook_dir: str
    version: str
    time: float


class MachineMessage(TypedDict):
    """A sample of the machine; `history` comes once after a wish."""

    type: Literal["machine"]
    seq: int
    machine: MachineState
    history: MachineHistory | None


class RunsMessage(TypedDict):
    """Runs that are new or have changed, and ids that are gone. `is_all`: forget what you knew."""

    type: Literal["runs"]
    seq: int
    is_all: bool
    runs: list[RunRow]
    removed: list[str]


class PointsMessage(TypedDict):
    """New points of a followed run. `restart`: metrics whose points are to be forgotten first, because an attempt
    went on from an earlier step; the browser then asks for them anew. `after` is the cursor the points follow on."""

    type: Literal["points"]
    seq: int
    run: str
    restart: list[str]
    series: list[PointsRow]


class PointsRow(TypedDict):
    """Points of one metric that come after the reader's cursor `after`; `cursor` is the new one."""

    name: str
    after: Cursor
    cursor: Cursor
    steps: list[int]
    times: list[float]
    values: list[Value]


class LogMessage(TypedDict):
    """New text of a rank's log, after the reader's cursor `after`. `skipped_bytes` before it were left out."""

    type: Literal["log"]
    seq: int
    run: str
    rank: int
    text: str
    skipped_bytes: int
    after: Cursor
    cursor: Cursor


class SamplesMessage(TypedDict):
    """New readings of the devices of a followed run, as in SamplesAnswer."""

    type: Literal["samples"]
    seq: int
    run: str
    samples: SamplesAnswer


class DetailMessage(TypedDict):
    """A followed run's checkpoints, events or metric names have changed: ask for GET runs/ID again."""

    type: Literal["detail"]
    seq: int
    run: str


class GoneMessage(TypedDict):
    """A followed run was deleted."""

    type: Literal["gone"]
    seq: int
    run: str


class ChoiceMessage(TypedDict):
    """The devices chosen for the next run have changed."""

    type: Literal["choice"]
    seq: int
    choice: Choice


class RefusalMessage(TypedDict):
    """A wish that couldn't be understood or done."""

    type: Literal["refusal"]
    seq: int
    message: str


StreamMessage = (
    HelloMessage
    | MachineMessage
    | RunsMessage
    | PointsMessage
    | LogMessage
    | SamplesMessage
    | DetailMessage
    | GoneMessage
    | ChoiceMessage
    | RefusalMessage
)
