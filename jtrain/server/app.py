"""The extension of jupyter_server."""

from __future__ import annotations

from jupyter_server.extension.application import ExtensionApp

from jtrain.server.routes import routes
from jtrain.server.service import Service


class JtrainApp(ExtensionApp):
    """Serves `<base_url>jtrain/api/`."""

    name = "jtrain"
    extension_url = "/lab"
    load_other_extensions = True

    def initialize_handlers(self) -> None:
        """Called by jupyter_server."""
        self.service = Service(notebook_dir=getattr(self.serverapp, "root_dir", ""))
        self.handlers.extend(routes("/", self.service))

    async def stop_extension(self) -> None:
        """Called by jupyter_server when it ends."""
        self.service.close()
