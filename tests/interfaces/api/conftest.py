"""A real server on a real port, on each kind of database, and ways to speak to it."""

import secrets
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from perdure.app import Perdure
from perdure.client import Client
from perdure.interfaces.api.doors import read_token
from perdure.interfaces.api.server import Address, Running, running
from tests.postgres import PostgresServer


@pytest.fixture(scope="session")
def api_url(postgres: PostgresServer) -> str:
    """One PostgreSQL database for all tests of the API; they tell their own goals and sessions from others'."""
    return postgres.new_database(f"api_{secrets.token_hex(6)}")


@pytest.fixture
def database(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if backend == "sqlite":
        return str(shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "api.db"))
    return str(request.getfixturevalue("api_url"))


@pytest.fixture
async def home(tmp_path: Path, database: str) -> AsyncIterator[Perdure]:
    async with Perdure.open(tmp_path / "home", database_url=database) as p:
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
        yield client


@pytest.fixture
async def http(server: Running) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who has shown nothing."""
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
        yield http


@pytest.fixture
async def known(server: Running, token: str) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who shows the token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False) as http:
        yield http
