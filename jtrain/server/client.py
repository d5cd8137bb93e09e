"""One open page: what it wants to see, and what it has been told.

Nothing waits in a queue. A wake-up only says that there is something new; what it is is read when the page can take
it, so a slow page gets fewer and larger messages and never costs the server more memory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import TypeAdapter, ValidationError

from jtrain.domain.messages import FollowWish, MachineState, RunRow, WatchWish
from jtrain.errors import RunNotFoundError
from jtrain.server.encoding import encode
from jtrain.server.follow import Body, Follow
from jtrain.server.service import Service
from jtrain.store.paths import RUN_ID

_MOST_FOLLOWED = 100
_WISH: TypeAdapter[WatchWish] = TypeAdapter(WatchWish)

Send = Callable[[str], Awaitable[None]]


class Client:
    """One page. `send` takes a message and returns when there is room for the next one."""

    def __init__(self, service: Service, version: str, send: Send) -> None:
        self._service = service
        self._version = version
        self._send = send
        self._seq = 0
        self._news = asyncio.Event()
        self._wants_machine = self._wants_runs = False
        self._needs_history = False
        self._machine: MachineState | None = None
        self._rows: dict[str, RunRow] | None = None
        self._choice: list[str] | None = None
        self._follows: dict[str, Follow] = {}
        self._replies: list[Body] = []

    def wake(self) -> None:
        """There is something new."""
        self._news.set()

    async def serve(self) -> None:
        """Tell the page what is new, for as long as it is there."""
        service = self._service
        hello = {"server": service.id, "notebook_dir": service.notebook_dir}
        await self._tell({"type": "hello", **hello, "version": self._version, "time": time.time()})
        while True:
            await self._news.wait()
            self._news.clear()
            while await self._tell_news():
                pass

    def wish(self, text: str | bytes) -> None:
        """Do what the page asks for; a wish that can't be done is answered with a refusal."""
        try:
            wish = _WISH.validate_json(text)
            _check(wish)
        except (ValidationError, ValueError) as error:
            self._refuse(f"the wish can't be understood: {_shorten(error)}")
            return
        self._watch_machine(wish["machine"])
        self._watch_runs(wish["runs"])
        wanted = {follow["run"]: follow for follow in wish["follow"]}
        for run_id in [run_id for run_id in self._follows if run_id not in wanted]:
            self._leave(run_id)
        for follow in wanted.values():
            self._follow(follow)
        self.wake()

    def close(self) -> None:
        """The page is gone."""
        self._watch_machine(False)
        self._watch_runs(False)
        for run_id in list(self._follows):
            self._leave(run_id)

    # Wishes ----------------------------------------------------------------------------------------------------

    def _watch_machine(self, wanted: bool) -> None:
        self._needs_history = wanted
        self._wants_machine = wanted
        self._machine = None
        (self._service.machine.join if wanted else self._service.machine.leave)(self)

    def _watch_runs(self, wanted: bool) -> None:
        if wanted and not self._wants_runs:
            self._rows = self._choice = None
        self._wants_runs = wanted
        # The choice of devices is shown with the machine and is looked at together with the runs.
        needs = wanted or self._wants_machine
        (self._service.runs.join if needs else self._service.runs.leave)(self)

    def _follow(self, wish: FollowWish) -> None:
        run_id = wish["run"]
        known = self._follows.get(run_id)
        if known is None:
            try:
                known = self._follows[run_id] = Follow(self._service.follow(run_id, self))
            except RunNotFoundError:
                self._replies.append({"type": "gone", "run": run_id})
                return
        known.change(wish)

    def _leave(self, run_id: str) -> None:
        self._service.unfollow(self._follows.pop(run_id).feed, self)

    def _refuse(self, message: str) -> None:
        self._replies = [*self._replies[-_MOST_FOLLOWED:], {"type": "refusal", "message": message}]
        self.wake()

    # News ------------------------------------------------------------------------------------------------------

    async def _tell_news(self) -> bool:
        """Tell what is new; whether there was anything."""
        bodies, self._replies = self._replies, []
        bodies += [*self._about_machine(), *self._about_runs()]
        for body in bodies:
            await self._tell(body)
        has_told = bool(bodies)
        for follow in list(self._follows.values()):
            has_told = await self._tell_follow(follow) or has_told
        return has_told

    async def _tell_follow(self, follow: Follow) -> bool:
        service = self._service
        labels = await service.machine.labels(follow.feed.devices)
        loop = asyncio.get_running_loop()
        bodies = await loop.run_in_executor(service.executor, follow.next, labels)
        for body in bodies:
            await self._tell(body)
        return bool(bodies)

    def _about_machine(self) -> list[Body]:
        state = self._service.machine.state
        if not self._wants_machine or state is None or state is self._machine:
            return []
        history = self._service.machine.history() if self._needs_history else None
        self._machine, self._needs_history = state, False
        return [{"type": "machine", "machine": state, "history": history}]

    def _about_runs(self) -> list[Body]:
        runs = self._service.runs
        if not (self._wants_runs or self._wants_machine) or not runs.is_ready:
            return []
        bodies: list[Body] = []
        if self._wants_runs and runs.rows is not self._rows:
            bodies.append(_changes(self._rows, runs.rows))
            self._rows = runs.rows
        if runs.choice is not self._choice:
            self._choice = runs.choice
            bodies.append({"type": "choice", "choice": {"uuids": runs.choice}})
        return bodies

    async def _tell(self, body: dict[str, Any]) -> None:
        self._seq += 1
        await self._send(encode({**body, "seq": self._seq}))


def _changes(known: dict[str, RunRow] | None, rows: dict[str, RunRow]) -> Body:
    """What has changed for a page that knows the rows `known`."""
    before = known or {}
    changed = [row for run_id, row in rows.items() if before.get(run_id) != row]
    removed = [run_id for run_id in before if run_id not in rows]
    return {"type": "runs", "is_all": known is None, "runs": changed, "removed": removed}


def _check(wish: WatchWish) -> None:
    """Raises ValueError for what has the right form but makes no sense."""
    if len(wish["follow"]) > _MOST_FOLLOWED:
        raise ValueError(f"at most {_MOST_FOLLOWED} runs can be followed at once")
    for follow in wish["follow"]:
        if not RUN_ID.fullmatch(follow["run"]):
            raise ValueError(f"{follow['run'][:80]!r} is no run id")
        if not all(rank.isascii() and rank.isdigit() and len(rank) < 6 for rank in follow["logs"]):
            raise ValueError("the ranks in `logs` are numbers from 0")
        cursors = [*follow["series"].values(), *follow["logs"].values()]
        if any(cursor["attempt"] < 0 or cursor["count"] < 0 for cursor in cursors):
            raise ValueError("a cursor can't be negative")


def _shorten(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"[:200]
    return str(error)[:200]
