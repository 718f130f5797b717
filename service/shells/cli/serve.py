"""`rigfit serve`."""

import uvicorn

from service.app import create_app
from service.settings import settings
from service.shells.logs import configure_logs


def serve(host: str | None, port: int | None) -> None:
    """Serve until interrupted, at the address given or that of the settings."""
    chosen = settings()
    configure_logs(chosen)
    uvicorn.run(
        create_app(chosen),
        host=host or chosen.host,
        port=chosen.port if port is None else port,
        log_level=chosen.log_level,
        log_config=None,
    )
