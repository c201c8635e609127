"""The client of a server: `Client`, and `AsyncClient` with the same methods.

requests            what is sent and what comes back, for both
values              jobs, events and files from JSON
problems            refusals as the exceptions that the service itself raises
connection          which server, what is tried again
event_stream        events over connections that break; server_sent_events: the format
watching            a job's events as the progress of a run
local_server        the server of this machine, started where none runs
"""

from typing import TYPE_CHECKING, Any

from ...core.base.extras import missing, require

if TYPE_CHECKING or "httpx" not in missing("serve"):
    from .async_client import AsyncClient
    from .client import Client
else:

    class Client:
        """Without the extra `serve` there is no client: making one says how to install it."""

        def __init__(self, *args: Any, **options: Any) -> None:
            require("serve", "httpx")

    class AsyncClient(Client):
        __doc__ = Client.__doc__


__all__ = ["AsyncClient", "Client"]
