"""Every file name of a run, in one place."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from jtrain.errors import RunNotFoundError

RUN_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
"""What a run id looks like; anything else never reaches the file system."""


def store_root() -> Path:
    """The store's folder: `$JTRAIN_HOME`, else the user's data folder."""
    home = os.environ.get("JTRAIN_HOME")
    return Path(home).expanduser().absolute() if home else Path(platformdirs.user_data_dir("jtrain", appauthor=False))


def check_run_id(run_id: str) -> str:
    """`run_id` itself when it is one; raises RunNotFoundError when it can't be (a path, an empty name, …)."""
    if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id):
        raise RunNotFoundError(f"{run_id!r} is no run id; run ids look like brisk-otter-7 (see `%jtrain runs`)")
    return run_id


@dataclass(frozen=True)
class AttemptPaths:
    """Files of one attempt, `RUN/attempts/N`."""

    root: Path

    @property
    def number(self) -> int:
        return int(self.root.name)

    @property
    def ranks(self) -> Path:
        """The memory-mapped table that supervisor and ranks share."""
        return self.root / "ranks.bin"

    @property
    def samples(self) -> Path:
        return self.root / "samples.jsonl"

    @property
    def exit(self) -> Path:
        return self.root / "exit.json"

    @property
    def went_on(self) -> Path:
        """From which state it went on, as rank 0 found it; missing when it began from the start."""
        return self.root / "went-on.json"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def log(self, rank: int) -> Path:
        return self.logs / f"rank-{rank}.log"

    def logged_ranks(self) -> list[int]:
        """The ranks that have a log, in order."""
        numbers = [path.stem.removeprefix("rank-") for path in self.logs.glob("rank-*.log")]
        return sorted(int(number) for number in numbers if number.isdecimal())

    def error(self, rank: int) -> Path:
        return self.root / "errors" / f"rank-{rank}.json"

    def notices(self, rank: int) -> Path:
        return self.root / f"notices-rank-{rank}.jsonl"

    def metrics(self, rank: int) -> Path:
        """The folder of one rank's metric series."""
        return self.root / "metrics" / f"rank-{rank}"

    def create(self) -> None:
        for folder in (self.root, self.logs, self.root / "errors", self.root / "metrics"):
            folder.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class RunPaths:
    """Files of one run, `STORE/runs/ID`."""

    root: Path

    @property
    def id(self) -> str:
        return self.root.name

    @property
    def spec(self) -> Path:
        return self.root / "spec.json"

    @property
    def payload(self) -> Path:
        return self.root / "payload"

    @property
    def owner_lock(self) -> Path:
        return self.root / "owner.lock"

    @property
    def journal(self) -> Path:
        return self.root / "journal.jsonl"

    @property
    def inbox(self) -> Path:
        return self.root / "inbox"

    @property
    def supervisor_log(self) -> Path:
        return self.root / "supervisor.log"

    @property
    def attempts(self) -> Path:
        return self.root / "attempts"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def result(self) -> Path:
        return self.root / "result"

    def attempt(self, number: int) -> AttemptPaths:
        return AttemptPaths(self.attempts / str(number))

    def attempt_numbers(self) -> list[int]:
        """Numbers of the attempts there are, in order."""
        try:
            names = os.listdir(self.attempts)
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if name.isdigit())


@dataclass(frozen=True)
class StorePaths:
    """Files of the store itself."""

    root: Path

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def index(self) -> Path:
        return self.root / "index.sqlite"

    def run(self, run_id: str) -> RunPaths:
        """Paths of the run `run_id`; raises RunNotFoundError when the name can't be one."""
        return RunPaths(self.runs / check_run_id(run_id))
