"""Fixtures that every test may use: real databases, an own home, nothing of the user's environment."""

import asyncio
import gc
import os
import secrets
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import settings

from perdure import DatabaseClient
from perdure.testing.model_server import ModelServer, Script
from perdure.testing.model_server.script import Order
from tests.children import MODEL_VARIABLES
from tests.postgres import DatabasePool, PostgresServer, start_postgres
from tests.sql import Connections, PlainSql

# How long something takes is no test. The suite tries the same examples every time, a long run new ones.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.register_profile("torture", deadline=None)
settings.load_profile("torture" if "PERDURE_TORTURE" in os.environ else "suite")

BACKENDS = ("sqlite", "postgresql")


def _ignore_hangup(_number: int, _frame: object) -> None:
    """Survive a hang-up, as SIG_IGN would."""


# Children inherit ignored signals, and tests that interrupt a child would wait for ever. A shell without job control
# starts background commands with SIGINT ignored, `nohup` ignores SIGHUP. A handler is not inherited by a new program:
# this process still survives a hang-up, and what it starts has the default.
_HANDLERS: dict[signal.Signals, Callable[[int, FrameType | None], object] | signal.Handlers] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: _ignore_hangup,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGQUIT: signal.SIG_DFL,
}
for _kind, _handler in _HANDLERS.items():
    if signal.getsignal(_kind) is signal.SIG_IGN:
        signal.signal(_kind, _handler)


def pytest_collection_finish() -> None:
    """Leave what was collected to itself, and collect garbage less often than a program would.

    Each full garbage collection would look through thousands of tests. What the tests of a module import and keep is
    looked through often too: with the thresholds of Python, a twelfth of the processor time. Children have those.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every test away from the home, settings and colours of whoever runs it."""
    ours = [name for name in os.environ if name.startswith(("PERDURE_", "MEMORY_"))]
    for name in (*ours, "DATABASE_PATH", *MODEL_VARIABLES):
        if name != "PERDURE_TORTURE":
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("PERDURE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def answer_order() -> Order:
    """Which answer of its script the model server gives; modules replace it."""
    return "turns"


@pytest.fixture
def model_key() -> str | None:
    """The key of the user for it; modules that store one replace it."""
    return "key-of-a-test"


@pytest.fixture
def model_server(answer_order: Order, model_key: str | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A scripted server in the place of OpenAI: the models `openai:…` of this process and its children ask it."""
    with ModelServer(Script(order=answer_order)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        if model_key is not None:
            monkeypatch.setenv("OPENAI_API_KEY", model_key)
        yield server


@pytest.fixture
def default_model(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> ModelServer:
    """The same, with one of its models as the default one."""
    monkeypatch.setenv("PERDURE_MODEL", "openai:scripted")
    return model_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL server, started once for all tests of this process."""
    with start_postgres(is_hasty=True) as server:
        yield server


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Each kind of database in turn."""
    return str(request.param)


@pytest.fixture
def database_url(empty_url: str) -> str:
    """An empty database; folders that do not test migrations replace it by a migrated one."""
    return empty_url


@pytest.fixture
def empty_url(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Where a new database may be made: a path where there is no file, or an empty PostgreSQL database."""
    if backend == "sqlite":
        return str(tmp_path / "database" / "perdure.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database(f"test_{secrets.token_hex(6)}")


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One migrated SQLite file, for tests that leave nothing behind."""
    return _migrated(str(tmp_path_factory.mktemp("migrated") / "perdure.db"))


@pytest.fixture(scope="session")
def migrated_postgresql(postgres: PostgresServer) -> str:
    """One migrated PostgreSQL database, for tests that leave nothing behind."""
    return _migrated(postgres.new_database("migrated"))


@pytest.fixture(scope="session")
def postgresql_pool(postgres: PostgresServer) -> DatabasePool:
    """Migrated PostgreSQL databases, created when none is idle."""
    return DatabasePool(lambda: _migrated(postgres.new_database(f"pool_{secrets.token_hex(6)}")))


@pytest.fixture(scope="module")
def shared_postgresql(postgresql_pool: DatabasePool) -> Iterator[str]:
    """One migrated PostgreSQL database for all tests of a module, which see to what others have left there."""
    with postgresql_pool.database() as url:
        yield url


@pytest.fixture
def own_postgresql(postgresql_pool: DatabasePool) -> Iterator[str]:
    """A migrated PostgreSQL database without rows, for one test."""
    with postgresql_pool.database() as url:
        yield url


@pytest.fixture
def own_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A migrated database for one test: a file or a PostgreSQL database."""
    if backend == "sqlite":
        return str(shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "own.db"))
    return str(request.getfixturevalue("own_postgresql"))


@pytest.fixture
def migrated_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A migrated database, made quickly: a file of its own, or the PostgreSQL database of the module."""
    if backend == "sqlite":
        return str(shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "migrated.db"))
    return str(request.getfixturevalue("shared_postgresql"))


@pytest.fixture(scope="session")
def bots_url(postgres: PostgresServer) -> str:
    """One PostgreSQL database for all tests that build bots; each empties it first."""
    return _migrated(postgres.new_database(f"bots_{secrets.token_hex(6)}"))


@pytest.fixture(scope="module")
def connections() -> Iterator[Connections]:
    """Connections of drivers that the tests of a module share."""
    connections = Connections()
    yield connections
    connections.close()


@pytest.fixture
def sql(backend: str, connections: Connections, request: pytest.FixtureRequest) -> Iterator[PlainSql]:
    """Plain SQL on a migrated database, through the driver alone; everything is rolled back afterwards."""
    url = request.getfixturevalue(f"migrated_{backend}")
    begun = connections.sqlite(url) if backend == "sqlite" else connections.postgres(url)
    with begun as plain:
        yield plain


def _migrated(url: str) -> str:
    async def migrate() -> None:
        await (await DatabaseClient.create(url)).close()

    asyncio.run(migrate())
    return url


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    """A path where there is no file yet."""
    return tmp_path / "perdure.db"
