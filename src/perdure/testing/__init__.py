"""Tests of flows: a temporary home for each test, a clock that the test advances, and functions that it replaces.

May import: everything but interfaces, client and sync.

async with perdure.testing.home() as p:
    p.replace(charge, fake_charge)
    handle = await p.goals.start(checkout, "A-1")
    await p.clock.advance(24 * 3600)
    result = await handle.result(timeout_s=10)
"""

from perdure.testing.clock import ManualClock
from perdure.testing.home import TemporaryHome, home
from perdure.testing.replacements import Replacement

__all__ = ["ManualClock", "Replacement", "TemporaryHome", "home"]
