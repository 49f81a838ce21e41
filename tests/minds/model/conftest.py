"""A world for goals of models on each kind of state store."""

import pytest

from tests.contracts.conftest import goals_url, place, stored  # noqa: F401 (fixtures)
from tests.contracts.histories import Stored
from tests.kernel.world import World


@pytest.fixture
def world(stored: Stored) -> World:  # noqa: F811 (the fixture of that name)
    return World(stored.store, stored.leases, dead=stored.dead)
