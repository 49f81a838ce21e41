"""The configuration of uvicorn: the protocols, their timeout, and the limit of connections."""

from typing import Any

import uvicorn

from perdure.interfaces.api.protocols.connection_limit import ACCEPTED_AT_ONCE, ConnectionLimit, most_connections
from perdure.interfaces.api.protocols.http import TimeoutHttp
from perdure.interfaces.api.protocols.sockets import TimeoutSocket


class Config(uvicorn.Config):
    """The configuration of uvicorn, with the timeout and limit of connections."""

    def __init__(self, app: Any, patience_s: float, most: int | None, **more: Any) -> None:
        super().__init__(app, http=TimeoutHttp, ws=TimeoutSocket, backlog=ACCEPTED_AT_ONCE, **more)
        self.patience_s = patience_s
        """The timeout for a client to send a whole request, or to read a part of the response."""
        self.connection_limit = ConnectionLimit(most or most_connections())
