"""What one client has been told of one run that it follows: it reads on when the client can take more."""

from __future__ import annotations

from typing import Any

from jtrain.domain.messages import Cursor, FollowWish, PointsRow
from jtrain.server.feed import Look, RunFeed
from jtrain.server.samples import answer
from jtrain.server.texts import log_size, read_on

_MOST_POINTS = 40_000
"""Points in one message, over all metrics."""

Body = dict[str, Any]


class Follow:
    """A run followed by one client. Messages are made when there is room for them, so a slow client costs no memory."""

    def __init__(self, feed: RunFeed) -> None:
        self.feed = feed
        self._metrics: list[str] | None = None
        self._series: dict[str, Cursor] = {}
        self._logs: dict[int, Cursor] = {}
        self._wants_samples = False
        self._num_samples = 0
        self._detail: tuple[object, ...] | None = None
        self._is_gone = False
        self._wish: FollowWish | None = None

    def change(self, wish: FollowWish) -> None:
        """Go on as `wish` says, from the next call of `next` on (which may be at work in a thread now)."""
        self._wish = wish

    def _obey(self) -> None:
        wish, self._wish = self._wish, None
        if wish is None:
            return
        self._is_gone = False
        self._metrics = wish["metrics"]
        self._series = dict(wish["series"])
        self._logs = {int(rank): cursor for rank, cursor in wish["logs"].items()}
        if wish["samples"] and not self._wants_samples:
            self._num_samples = 0
        self._wants_samples = wish["samples"]

    def next(self, labels: dict[str, str]) -> list[Body]:
        """The next messages; none when there is nothing new. Reads files."""
        self._obey()
        look = self.feed.look
        if look.is_gone:
            return self._say_gone()
        if not self.feed.has_looked.is_set():
            return []
        bodies = [*self._points(look), *(body for rank in list(self._logs) for body in self._log(look, rank))]
        bodies += self._samples(look, labels)
        if look.detail != self._detail:
            self._detail = look.detail
            bodies.append({"type": "detail"})
        return [{**body, "run": self.feed.paths.id} for body in bodies]

    def _say_gone(self) -> list[Body]:
        if self._is_gone:
            return []
        self._is_gone = True
        return [{"type": "gone", "run": self.feed.paths.id}]

    def _points(self, look: Look) -> list[Body]:
        restart: list[str] = []
        series: list[PointsRow] = []
        names = self.feed.names() if self._metrics is None else self._metrics
        num_points = 0
        for name in names:
            end: Cursor = {"attempt": look.attempt, "count": look.counts.get(name, 0)}
            cursor = self._series.get(name)
            if cursor == end or num_points > _MOST_POINTS:
                continue
            must_restart, rows = self.feed.follow(name, cursor)
            if must_restart:
                restart.append(name)
                self._series[name] = end
            elif rows:
                series += rows
                self._series[name] = rows[-1]["cursor"]
                num_points += sum(len(row["steps"]) for row in rows)
        return [{"type": "points", "restart": restart, "series": series}] if restart or series else []

    def _log(self, look: Look, rank: int) -> list[Body]:
        cursor = self._logs[rank]
        bodies = []
        attempt = max(1, cursor["attempt"])
        while 0 < attempt <= look.attempt:
            is_latest = attempt == look.attempt
            size = look.logs.get(rank) if is_latest else log_size(self.feed.paths, attempt, rank)
            here: Cursor = cursor if cursor["attempt"] == attempt else {"attempt": attempt, "count": 0}
            if size is not None and size != here["count"]:
                text, skipped, end = read_on(self.feed.paths, rank, here, size, is_over=not is_latest)
                if text or skipped:
                    facts = {"rank": rank, "text": text, "skipped_bytes": skipped, "after": cursor, "cursor": end}
                    bodies.append({"type": "log", **facts})
                    cursor = end
            attempt += 1
        self._logs[rank] = cursor
        return bodies

    def _samples(self, look: Look, labels: dict[str, str]) -> list[Body]:
        new = min(look.num_samples - self._num_samples, len(self.feed.samples))
        self._num_samples = look.num_samples
        if not self._wants_samples or new <= 0:
            return []
        samples = list(self.feed.samples)[-new:]
        return [{"type": "samples", "samples": answer(samples, self.feed.devices, labels)}]
