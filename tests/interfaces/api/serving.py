"""A home served over a real socket, in the loop of the test, and a client of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import uvicorn

from perdure import Perdure
from perdure.client import Client
from perdure.interfaces.api.doors import Doors, read_token
from perdure.interfaces.api.lines import Ending
from perdure.interfaces.api.server import Address, _config, _end, _working, bind
from perdure.interfaces.api.surface import BASE


class Served:
    """A running server: its home, a typed client of it, and plain requests."""

    def __init__(self, p: Perdure, client: Client, http: httpx.AsyncClient, stop: Callable[[], None]) -> None:
        self.p = p
        self.client = client
        self.http = http
        self.stop = stop
        """Ends it as a signal does."""

    @property
    def url(self) -> str:
        return str(self.http.base_url).partition(BASE)[0]


@asynccontextmanager
async def served(home: Path, database_url: str) -> AsyncIterator[Served]:
    """Serve a home at a free port for the time of the block."""
    listener = bind(Address(port=0))
    port = listener.getsockname()[1]
    async with Perdure.open(home, database_url=database_url) as p, _working(p, Doors(home, port)) as surface:
        token, url = read_token(home), f"http://127.0.0.1:{port}"
        server = uvicorn.Server(_config(surface))
        running = asyncio.create_task(server.serve([listener]))

        def stop() -> None:
            _end(surface, Ending.SHUTDOWN)
            server.should_exit = True

        try:
            headers = {"Authorization": f"Bearer {token}"}
            async with (
                Client(url, token) as client,
                httpx.AsyncClient(base_url=f"{url}{BASE}", headers=headers, trust_env=False) as http,
            ):
                yield Served(p, client, http, stop)
        finally:
            stop()
            await running
            listener.close()
