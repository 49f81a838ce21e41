"""What all tests of surfaces share."""

import asyncio
from types import SimpleNamespace

import pytest


@pytest.fixture(autouse=True)
def quick_uvicorn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server end in 20 ms: uvicorn polls ten times a second for its end, and pauses 0.1 s when it closes."""
    quick = SimpleNamespace(**{**vars(asyncio), "sleep": lambda pause_s: asyncio.sleep(pause_s / 10)})
    monkeypatch.setattr("uvicorn.server.asyncio", quick)
