"""What the leases in SQLite promise beyond the port: deadlines belong to a boot, and to the clock since it."""

from dataclasses import replace

import pytest

from perdure import Conflict
from perdure.store.goals.sqlite import SqliteLeases
from tests.contracts.histories import OTHER, WORKER, Stored, begin

in_sqlite = pytest.mark.parametrize("place", ["sqlite"], indirect=True)


@in_sqlite
async def test_a_lease_of_another_boot_has_expired(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    assert await stored.leases.claim("g", replace(OTHER, boot_id="after the restart")) > 1


@in_sqlite
async def test_a_lease_ends_by_the_clock_since_boot(stored: Stored) -> None:
    moments = [100.0]
    assert stored.database is not None
    leases = SqliteLeases(stored.database, boottime_s=lambda: moments[-1])
    await begin(stored)
    await leases.renew(WORKER, 30)
    moments.append(129.9)
    with pytest.raises(Conflict):
        await leases.claim("g", OTHER)
    moments.append(130.0)
    assert await leases.claim("g", OTHER) > 1
