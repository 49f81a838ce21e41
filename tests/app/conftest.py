"""The goals of a home as a program has them, on each kind of store in turn."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure import Perdure
from perdure.app import open_ephemeral
from perdure.app.goals.goals import Goals
from tests.conftest import BACKENDS


@pytest.fixture
def database_url(own_url: str) -> str:
    """A migrated database for one test."""
    return own_url


@pytest.fixture(params=["memory", *BACKENDS])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """Where the goals are: a file, a URL, or nowhere."""
    if request.param == "memory":
        return None
    if request.param == "sqlite":
        return str(shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "perdure.db"))
    return str(request.getfixturevalue("own_postgresql"))


@pytest.fixture
async def goals(place: str | None, tmp_path: Path) -> AsyncIterator[Goals]:
    if place is None:
        async with open_ephemeral() as goals:
            yield goals
    else:
        async with Perdure.open(tmp_path / "home", database_url=place) as p:
            yield p.goals
