"""What a page may ask for: pause, resume, stop, another place in the line."""

from __future__ import annotations

import getpass
import os
import re
import subprocess
import sys

from jtrain.domain.messages import ActionAnswer, ActionWish
from jtrain.domain.states import State
from jtrain.errors import JtrainError, OptionError
from jtrain.run import Run
from jtrain.store.inbox import Command, put

_RESUME_TIMEOUT_S = 120.0
_HIGHEST = 1_000_000
_MADE = re.compile(r"run ([a-z0-9][a-z0-9-]{0,62}) ")


def act(run: Run, wish: ActionWish) -> ActionAnswer:
    """Do it, or raise JtrainError with the sentence that says why not."""
    if wish["action"] == "pause":
        return _pause(run)
    if wish["action"] == "stop":
        return _stop(run)
    if wish["action"] == "resume":
        return _resume(run, wish.get("checkpoint", ""))
    return _set_priority(run, wish.get("priority"))


def _pause(run: Run) -> ActionAnswer:
    if run.is_at_rest:
        raise JtrainError(f"run {run.id} is {run.shown_state}: there is nothing to pause")
    run.pause()
    return {"run": run.id, "text": f"run {run.id} was asked to pause: it writes a checkpoint at its next batch"}


def _stop(run: Run) -> ActionAnswer:
    can_stop = not run.is_at_rest or run.is_interrupted or run.state is State.PAUSED
    if not can_stop:
        raise JtrainError(f"run {run.id} is {run.shown_state}: there is nothing to stop")
    run.stop()
    return {"run": run.id, "text": f"run {run.id} was asked to stop"}


def _set_priority(run: Run, priority: int | None) -> ActionAnswer:
    if priority is None or abs(priority) > _HIGHEST:
        raise OptionError(f"the action `priority` needs a whole number `priority` from {-_HIGHEST} to {_HIGHEST}")
    if run.is_at_rest or run.state is not State.QUEUED:
        raise JtrainError(f"run {run.id} is {run.shown_state}: only a run that waits has a place in the line to change")
    put(run.paths.inbox, Command("priority", by=getpass.getuser(), data={"priority": priority}))
    return {"run": run.id, "text": f"run {run.id} waits with priority {priority} now"}


def _resume(run: Run, checkpoint: str) -> ActionAnswer:
    """Through the command line: a run's supervisor is no child of this server, and this server never imports torch."""
    command = [sys.executable, "-P", "-m", "jtrain", "resume", run.id, "--background"]
    if checkpoint:
        if checkpoint not in [info.name for info in run.checkpoints()]:
            raise OptionError(f"run {run.id} has no checkpoint {checkpoint[:80]!r}")
        command += ["--checkpoint", checkpoint]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_RESUME_TIMEOUT_S,
            check=False,
            start_new_session=True,
            cwd=run.paths.root,
            env={**os.environ, "JTRAIN_HOME": str(run.store.paths.root)},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JtrainError(f"run {run.id} could not be resumed: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise JtrainError(said.splitlines()[-1][:1000] if said else f"run {run.id} could not be resumed")
    text = done.stdout.strip()
    made = _MADE.match(text)
    return {"run": made[1] if made else run.id, "text": text}
