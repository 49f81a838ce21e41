"""Fixtures of the crash tests."""

import pytest


@pytest.fixture
def database_url(own_url: str) -> str:
    """A migrated database for one test."""
    return own_url
