"""The REST routes: thin, each hands what was asked for to a thread that reads files."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from pydantic import TypeAdapter, ValidationError
from tornado import web

from jtrain.domain.messages import ActionWish, Choice, MetricsAnswer
from jtrain.errors import JtrainError, OptionError, RunNotFoundError
from jtrain.run import Run
from jtrain.server.actions import act
from jtrain.server.curves import RunCurves, read_starts, thin, to_values
from jtrain.server.encoding import encode
from jtrain.server.rows import run_answer
from jtrain.server.samples import answer, read_all
from jtrain.server.service import Service
from jtrain.server.stream import AUTH_RESOURCE, StreamSocket
from jtrain.server.texts import read_tail
from jtrain.store.choice import read_choice, write_choice
from jtrain.view.snapshot import main_metric

_MOST_POINTS = 20_000
_MOST_POINTS_TOGETHER = 400_000
_MOST_LINES = 50_000
_MOST_SPARKS = 500
_SPARK_POINTS = 60
_MOST_RANKS = 100_000

_ACTION: TypeAdapter[ActionWish] = TypeAdapter(ActionWish)
_CHOICE: TypeAdapter[Choice] = TypeAdapter(Choice)
T = TypeVar("T")


class Route(APIHandler):
    """Base of all: errors become a sentence, and a status that fits."""

    auth_resource = AUTH_RESOURCE

    def initialize(self, service: Service) -> None:
        self.service = service

    async def reply(self, read: Callable[[], T]) -> None:
        """Answer with what `read` gives; it is called in a thread."""
        self.finish(encode(await asyncio.to_thread(read)))

    def open_run(self, run_id: str) -> Run:
        """The run; raises RunNotFoundError for what is none, and for what can't be the id of one."""
        return Run(run_id, self.service.store)

    def number(self, name: str, default: int, lowest: int, highest: int) -> int:
        """A whole number of the query, brought between its bounds. Raises OptionError."""
        text = self.get_query_argument(name, str(default))
        if not text.lstrip("-").isdecimal() or len(text) > 12:
            raise OptionError(f"`{name}` is a whole number, not {text[:40]!r}")
        return min(max(int(text), lowest), highest)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = (kwargs.get("exc_info") or (None, None))[1]
        if isinstance(error, RunNotFoundError):
            status_code = 404
        elif isinstance(error, OptionError | ValidationError):
            status_code = 400
        elif isinstance(error, JtrainError):
            status_code = 409
        elif not isinstance(error, OSError):
            super().write_error(status_code, **kwargs)
            return
        self.set_status(status_code)
        self.finish(encode({"message": _sentence(error)}))

    def log_exception(self, *args: Any) -> None:
        # What is the asker's mistake, or a state of a run, is told to the asker and is no error of the server.
        if not isinstance(args[1], JtrainError | ValidationError):
            super().log_exception(*args)


def _sentence(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the body'}: {first['msg']}"
    return str(error)


class RunsRoute(Route):
    """GET runs."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        rows = await self.service.runs.read()
        await self.reply(lambda: {"runs": rows})


class SparksRoute(Route):
    """GET sparks?id=A&id=B."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        ids = list(dict.fromkeys(self.get_query_arguments("id")))[:_MOST_SPARKS]
        await self.reply(lambda: {"sparks": {run_id: self._spark(run_id) for run_id in ids}})

    def _spark(self, run_id: str) -> list[Any]:
        try:
            run = self.open_run(run_id)
        except RunNotFoundError:
            return []
        curves = _curves(run)
        name = main_metric(curves.names())
        if not name:
            return []
        parts = [part.points[: part.kept] for part in curves.parts(name)]
        return to_values(thin(parts, _SPARK_POINTS)["value"])[-_SPARK_POINTS:]


class RunRoute(Route):
    """GET runs/ID."""

    @web.authenticated
    @authorized
    async def get(self, run_id: str) -> None:
        await self.reply(lambda: run_answer(self.open_run(run_id)))


class MetricsRoute(Route):
    """GET runs/ID/metrics."""

    @web.authenticated
    @authorized
    async def get(self, run_id: str) -> None:
        names = self.get_query_arguments("name", strip=False)
        most = self.number("max_points", 2000, 16, _MOST_POINTS)
        axis: Literal["step", "time"] = "time" if self.get_query_argument("axis", "step") == "time" else "step"
        ends = self._ends()

        def read() -> MetricsAnswer:
            curves = _curves(self.open_run(run_id))
            wanted = names or curves.names()
            share = max(16, min(most, _MOST_POINTS_TOGETHER // max(1, len(wanted))))
            return {"series": [curves.row(name, share, axis, ends) for name in wanted]}

        await self.reply(read)

    def _ends(self) -> tuple[float, float] | None:
        texts = self.get_query_argument("from", ""), self.get_query_argument("to", "")
        if texts == ("", ""):
            return None
        try:
            low, high = float(texts[0] or "-inf"), float(texts[1] or "inf")
        except ValueError as error:
            raise OptionError("`from` and `to` are numbers") from error
        if math.isnan(low) or math.isnan(high):
            raise OptionError("`from` and `to` are numbers")
        return low, high


def _curves(run: Run) -> RunCurves:
    return RunCurves(run.paths, read_starts(run.events()))


class SamplesRoute(Route):
    """GET runs/ID/samples."""

    @web.authenticated
    @authorized
    async def get(self, run_id: str) -> None:
        most = self.number("max_points", 1000, 1, _MOST_POINTS)
        run = await asyncio.to_thread(self.open_run, run_id)
        devices = list((await asyncio.to_thread(lambda: run.standing)).devices)
        labels = await self.service.machine.labels(devices)
        await self.reply(lambda: answer(read_all(run.paths, most), devices, labels))


class LogsRoute(Route):
    """GET runs/ID/logs."""

    @web.authenticated
    @authorized
    async def get(self, run_id: str) -> None:
        rank = self.number("rank", 0, 0, _MOST_RANKS)
        lines = self.number("lines", 1000, 1, _MOST_LINES)
        await self.reply(lambda: read_tail(self.open_run(run_id).paths, rank, lines))


class ActionsRoute(Route):
    """POST runs/ID/actions."""

    @web.authenticated
    @authorized
    async def post(self, run_id: str) -> None:
        wish = _ACTION.validate_json(self.request.body)
        done = await asyncio.to_thread(lambda: act(self.open_run(run_id), wish))
        self.service.runs.hurry()
        self.finish(encode(done))


class MachineRoute(Route):
    """GET machine."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.finish(encode(await self.service.machine.read()))


class ChoiceRoute(Route):
    """GET and PUT choice."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        await self.reply(lambda: {"uuids": read_choice(self.service.store.paths.root)})

    @web.authenticated
    @authorized
    async def put(self) -> None:
        uuids = _CHOICE.validate_json(self.request.body)["uuids"]
        root = self.service.store.paths.root

        def choose() -> Choice:
            try:
                write_choice(root, uuids)
            except ValueError as error:
                raise OptionError(str(error)) from error
            return {"uuids": read_choice(root)}

        await self.reply(choose)
        self.service.runs.hurry()


class UnknownRoute(Route):
    """Whatever else: 404, said as JSON."""

    @web.authenticated
    @authorized
    async def get(self, *_: str) -> None:
        raise web.HTTPError(404, "there is no such page")

    post = put = delete = patch = get


def routes(base_url: str, service: Service) -> list[tuple[str, type, dict[str, Any]]]:
    """All routes below `base_url`."""
    table = {
        "runs": RunsRoute,
        "sparks": SparksRoute,
        "runs/([^/]+)": RunRoute,
        "runs/([^/]+)/metrics": MetricsRoute,
        "runs/([^/]+)/samples": SamplesRoute,
        "runs/([^/]+)/logs": LogsRoute,
        "runs/([^/]+)/actions": ActionsRoute,
        "machine": MachineRoute,
        "choice": ChoiceRoute,
        "stream": StreamSocket,
        "(.*)": UnknownRoute,
    }
    return [
        (url_path_join(base_url, "jtrain/api", path), handler, {"service": service}) for path, handler in table.items()
    ]
