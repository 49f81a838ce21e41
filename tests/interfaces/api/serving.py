"""A home served over a real socket, in the loop of the test, with a typed client of it and plain requests."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from perdure import Perdure
from perdure.app.access.token import read_token
from perdure.client import Client
from perdure.interfaces.api.dependencies import BASE
from perdure.interfaces.api.server import Address, Running, running
from tests.interfaces.api.document import documented, documented_client

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def plain_http(**options: Any) -> httpx.AsyncClient:
    """A client of servers on this machine, without the certificates that httpx would read for each client.

    It is patient: the first answer of a model imports what its provider needs, on a machine that is busy with tests.
    """
    return httpx.AsyncClient(trust_env=False, verify=_NO_TLS, **{"timeout": 60, **options})


@dataclass(frozen=True)
class Served:
    """A home, its server, and those who speak to it."""

    p: Perdure
    server: Running
    client: Client
    http: httpx.AsyncClient
    """Shows the token, and speaks of paths under the base."""


@asynccontextmanager
async def served(home: Path, database_url: str) -> AsyncIterator[Served]:
    """Serve a home at a free port for the time of the block."""
    async with Perdure.open(home, database_url=database_url) as p, running(p, Address(port=0)) as server:
        token = read_token(home)
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            Client(server.url, token) as client,
            plain_http(base_url=f"{server.url}{BASE}", headers=headers) as http,
        ):
            yield Served(p, server, documented_client(client), documented(http))
