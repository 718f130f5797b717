"""`rigfit serve`."""

from typing import TYPE_CHECKING

import uvicorn

from service.settings import Settings, settings
from service.shells.logs import configure_logs
from service.shells.serving.metrics_folder import shared_folder
from service.shells.serving.options import server_options
from service.shells.serving.tracing import tracing_of

if TYPE_CHECKING:
    from fastapi import FastAPI

# processes cannot be handed an application, only where to find what makes it
APPLICATION = f"{__name__}:application"


def serve(host: str | None, port: int | None, workers: int | None) -> None:
    """Serve until interrupted, at the address and in as many processes as given or as the settings say.

    Raises Unsupported where traces are wanted and cannot be exported.
    """
    chosen = settings()
    # said before processes are started, which would each fail on it
    tracing_of(chosen)
    serve_application(
        APPLICATION,
        chosen,
        host=host or chosen.host,
        port=chosen.port if port is None else port,
        workers=workers or chosen.workers,
    )


def application() -> "FastAPI":
    """The application of one process, which logs as the settings say and seldom looks for cycles."""
    from service.app import create_app  # noqa: PLC0415 - a process that watches over others needs none
    from service.planning.process import seldom_collect, share_one_heap  # noqa: PLC0415

    share_one_heap()
    chosen = settings()
    configure_logs(chosen)
    app = create_app(chosen)
    seldom_collect()
    return app


def serve_application(factory: str, chosen: Settings, *, host: str, port: int, workers: int) -> None:
    """Serve what the function `factory` (`module:name`) makes; a process that ends before its time is replaced."""
    configure_logs(chosen)
    with shared_folder(workers):
        uvicorn.run(
            factory,
            factory=True,
            host=host,
            port=port,
            workers=workers,
            log_level=chosen.log_level,
            log_config=None,
            **server_options(chosen),
        )
