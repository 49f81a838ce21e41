"""A real server on a real port, on each kind of database, and ways to speak to it; each checks what it receives."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from perdure.app import Perdure
from perdure.app.access.token import read_token
from perdure.client import Client
from perdure.interfaces.api.server import Address, Running, running
from tests.interfaces.api.document import documented, documented_client
from tests.interfaces.api.serving import Served, plain_http, served


@pytest.fixture
def database_url(own_url: str) -> str:
    """A migrated database for one test."""
    return own_url


@pytest.fixture
async def home(tmp_path: Path, migrated_url: str) -> AsyncIterator[Perdure]:
    async with Perdure.open(tmp_path / "home", database_url=migrated_url) as p:
        yield p


@pytest.fixture
async def server(home: Perdure) -> AsyncIterator[Running]:
    async with running(home, Address(port=0)) as server:
        yield server


@pytest.fixture
def token(server: Running) -> str:
    return read_token(server.surface.p.settings.home)


@pytest.fixture
async def client(server: Running, token: str) -> AsyncIterator[Client]:
    async with Client(server.url, token) as client:
        yield documented_client(client)


@pytest.fixture
async def http(server: Running) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who has shown nothing."""
    async with plain_http(base_url=server.url) as http:
        yield documented(http)


@pytest.fixture
async def known(server: Running, token: str) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who shows the token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with plain_http(base_url=server.url, headers=headers) as http:
        yield documented(http)


@pytest.fixture
async def there(tmp_path: Path, database_url: str) -> AsyncIterator[Served]:
    """A home of its own on a database of its own, served."""
    async with served(tmp_path / "home", database_url) as found:
        yield found


@pytest.fixture
async def plain(tmp_path: Path, migrated_sqlite: str) -> AsyncIterator[Served]:
    """The same on one kind of database, for what has nothing to do with it."""
    async with served(tmp_path / "home", str(shutil.copy(migrated_sqlite, tmp_path / "perdure.db"))) as found:
        yield found
