"""Many sockets at once: every message has its reply, a socket costs little, and who stops reading costs nobody else.

How long a reply takes is measured in `bench/server.py`; `make torture N=1000` opens 5,000 sockets.
"""

from pathlib import Path

import pytest

from bench import server
from tests.crash.size import torture_size

SOCKETS = 5 * torture_size(small=100)
MOST_BYTES = 60_000
MOST_DEAF_BYTES = 1 << 20


@pytest.mark.torture
async def test_every_socket_of_many_gets_its_replies_and_costs_little(tmp_path: Path) -> None:
    with server.served(tmp_path) as served:
        crowd = await server.asking(served, SOCKETS, round_s=SOCKETS / 500)
    assert crowd.asked == SOCKETS
    assert crowd.lost == 0
    assert crowd.bytes_per_socket <= MOST_BYTES


@pytest.mark.torture
async def test_those_who_stop_reading_cost_little_and_do_not_delay_others(tmp_path: Path) -> None:
    deaf = SOCKETS // 25
    with server.served(tmp_path) as served:
        found = await server.beside_deaf(served, readers=deaf * 5, deaf=deaf, round_s=1)
    assert found.lost == 0
    assert found.grown_bytes <= deaf * MOST_DEAF_BYTES
