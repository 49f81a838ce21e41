"""A world for goals in memory."""

import pytest

from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.world import World


@pytest.fixture
def world() -> World:
    dead: set[str] = set()
    store = InMemoryStateStore(is_dead=dead.__contains__)
    return World(store, store, dead=dead)
