"""What all clients of one server share: the store, the list of runs, the machine, and a reader per followed run."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jtrain.server.feed import RunFeed
from jtrain.server.machine import MachineWatch, Wakeable
from jtrain.server.runlist import RunList
from jtrain.store.runs import RunStore

_NUM_THREADS = 4


class Service:
    """The server's side of every page that is open. Costs nothing while none is.

    `notebook_dir` is the folder that the server's pages see, if it is one of this machine.
    """

    def __init__(self, root: Path | None = None, notebook_dir: str = "") -> None:
        self.notebook_dir = notebook_dir
        self.id = f"{time.time_ns():x}-{os.urandom(4).hex()}"
        self.store = RunStore(root)
        self.runs = RunList(self.store)
        self.machine = MachineWatch(self.store.paths.root)
        self.executor = ThreadPoolExecutor(_NUM_THREADS, "jtrain-files")
        self._feeds: dict[str, RunFeed] = {}

    def follow(self, run_id: str, client: Wakeable) -> RunFeed:
        """The reader of a run, which `client` is woken by from now on. Raises RunNotFoundError."""
        paths = self.store.find(run_id)
        feed = self._feeds.get(run_id)
        if feed is None or feed.look.is_gone:
            feed = self._feeds[run_id] = RunFeed(paths, self.executor)
        feed.join(client)
        return feed

    def unfollow(self, feed: RunFeed, client: Wakeable) -> None:
        """`client` doesn't follow the run any more."""
        if feed.leave(client) and self._feeds.get(feed.paths.id) is feed:
            del self._feeds[feed.paths.id]

    @property
    def num_followed(self) -> int:
        """Runs that somebody follows."""
        return len(self._feeds)

    def close(self) -> None:
        """End everything; nobody is served any more."""
        for feed in self._feeds.values():
            feed.close()
        self._feeds.clear()
        self.runs.close()
        self.machine.close()
        self.executor.shutdown(wait=False, cancel_futures=True)
