"""What uvicorn is told: our two protocols, how patient they are, and how many connections there may be."""

from typing import Any

import uvicorn

from perdure.interfaces.api.protocols.connections import ACCEPTED_AT_ONCE, Connections, most_connections
from perdure.interfaces.api.protocols.http import PatientHttp
from perdure.interfaces.api.protocols.sockets import PatientSocket


class Config(uvicorn.Config):
    """The settings of uvicorn, and ours."""

    def __init__(self, app: Any, patience_s: float, most: int | None, **more: Any) -> None:
        super().__init__(app, http=PatientHttp, ws=PatientSocket, backlog=ACCEPTED_AT_ONCE, **more)
        self.patience_s = patience_s
        """So long a client has to send a request whole, or to take some of what we send."""
        self.connections = Connections(most or most_connections())
