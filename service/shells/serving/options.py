"""How the HTTP server is run."""

from typing import Any

from service.settings import Settings
from service.shells.serving.patience import LimitedProtocol


def server_options(settings: Settings) -> dict[str, Any]:
    """Arguments of `uvicorn.run` by which connections and the end of the process have their limits."""
    return {
        "http": LimitedProtocol,
        "proxy_headers": bool(settings.trusted_proxies),
        "forwarded_allow_ips": list(settings.trusted_proxies),
        # the application logs its requests itself
        "access_log": False,
        "timeout_keep_alive": settings.keep_alive_s,
        "timeout_graceful_shutdown": settings.finish_s,
    }
