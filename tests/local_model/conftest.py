"""The model that `make test-models` has installed; elsewhere there is nothing to collect here."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.app.home.system import SystemClock
from perdure.minds.model.providers.client import ProviderClient
from perdure.model_settings import ModelDefaults, ModelTable
from tests.minds.model.providers.conftest import StoredSecrets

FILE = os.path.abspath(os.environ["PERDURE_LOCAL_MODEL"]) if "PERDURE_LOCAL_MODEL" in os.environ else ""
NAME = f"gguf:{FILE}"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave the tests out where there is no model."""
    return True if not FILE and collection_path.name.startswith("test_") else None


@pytest.fixture
async def client() -> AsyncIterator[ProviderClient]:
    settings = ModelDefaults(tables={NAME: ModelTable(context_window=2048)})
    client = ProviderClient(settings, StoredSecrets(), SystemClock(), {})
    yield client
    await client.close()


@pytest.fixture
async def wide_client() -> AsyncIterator[ProviderClient]:
    """A client whose window has room for a question of Forge."""
    settings = ModelDefaults(tables={NAME: ModelTable(context_window=8192)})
    client = ProviderClient(settings, StoredSecrets(), SystemClock(), {})
    yield client
    await client.close()
