"""The websocket: one for each page that is open."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jtrain import __version__
from jtrain.server.client import Client
from jtrain.server.service import Service

AUTH_RESOURCE = "jtrain"


class StreamSocket(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """`stream`: refuses strangers, users who may not read, and pages of other origins."""

    auth_resource = AUTH_RESOURCE

    def initialize(self, service: Service) -> None:
        self._service = service
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Open the socket. Raises HTTPError 403."""
        may = await ensure_async(self.authorizer.is_authorized(self, self.current_user, "read", AUTH_RESOURCE))
        if not may:
            raise web.HTTPError(403, "not authorised to read runs")
        await super().get(*args, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> None:
        super().open(*args, **kwargs)
        self.set_nodelay(True)
        self._client = Client(self._service, __version__, self._send)
        self._task = asyncio.create_task(self._serve(self._client))

    def on_message(self, message: str | bytes) -> None:
        if self._client is not None:
            self._client.wish(message)

    def on_close(self) -> None:
        if self._client is not None and self._task is not None:
            self._task.cancel()
            self._client.close()
            self._client = None
        super().on_close()

    async def _send(self, text: str) -> None:
        await self.write_message(text)

    async def _serve(self, client: Client) -> None:
        try:
            with contextlib.suppress(WebSocketClosedError, StreamClosedError):
                await client.serve()
        except Exception:
            # The page comes back with its cursors and starts afresh.
            self.log.exception("jtrain: a page can't be served")
            self.close(1011, "jtrain could not go on; see the server's log")
