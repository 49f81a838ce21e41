"""SIGKILL at random moments, with an oracle: whatever a child told of over a pipe is there afterwards, and once."""

import random
import secrets
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perdure.kernel.history.replay import replay
from tests import children
from tests.crash.goals import Acknowledged, carry_on_many, open_goals, rest_of
from tests.crash.size import torture_size

STEPS = 12
AT_ONCE = 3
PLAN = "goal: many steps\nsteps:\n" + "".join(
    f"  - {{id: s{i}, tool: read_file, with: {{path: config.toml}}, effect: pure"
    + (f", needs: [s{i - 2}]}}\n" if i > 2 else "}\n")
    for i in range(1, STEPS + 1)
)


@dataclass
class Oracle:
    """What children told of, and what has to be true of the database whenever one was killed."""

    home: Path
    url: str
    seed: int = field(default_factory=lambda: secrets.randbits(32))
    told: dict[tuple[str, int], bytes] = field(default_factory=dict)
    killed: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "config.toml").touch(0o600)

    def kill_one(self) -> None:
        """Let a child work, and kill it a moment after it has told of some events; it may also be done before."""
        ours, theirs = children.context().Pipe(duplex=False)
        child = children.start(carry_on_many, self.home, self.url, PLAN, AT_ONCE, theirs)
        theirs.close()
        try:
            for _ in range(self.chance.choice([0, 1, 2, 5, 9, 14, 20])):
                self.take(ours.recv())
            self._spin(self.chance.uniform(0, 0.004))
        except EOFError:
            pass  # it came to the end of its goals
        child.kill()
        self.killed += children.end_of(child) == -signal.SIGKILL
        for acknowledged in rest_of(ours):
            self.take(acknowledged)

    def take(self, acknowledged: Acknowledged) -> None:
        goal_id, seq, digest = acknowledged
        assert (goal_id, seq) not in self.told, f"event {seq} of {goal_id} was written twice; seed {self.seed}"
        self.told[goal_id, seq] = digest

    async def check(self) -> None:
        """Open the database anew: nothing told of is lost or changed, nothing is missing between, nothing is double."""
        async with open_goals(self.home, self.url) as goals:
            found: dict[tuple[str, int], bytes] = {}
            for goal in await goals.list(limit=1000):
                events = await goals.history(goal.summary.goal_id)
                replay(events, goal.summary)
                found |= {(event.goal_id, event.seq): event.hash for event in events}
        lost = {key for key, digest in self.told.items() if found.get(key) != digest}
        assert not lost, f"seed {self.seed}"

    @staticmethod
    def _spin(seconds: float) -> None:
        """Wait for less than the scheduler's patience, so that a kill can strike anywhere."""
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass


@pytest.mark.torture
async def test_nothing_acknowledged_is_lost_doubled_or_out_of_order_after_kills_at_random_moments(
    database_url: str, tmp_path: Path
) -> None:
    oracle = Oracle(tmp_path / "home", database_url)
    await oracle.check()
    rounds = torture_size(small=30)
    for _ in range(rounds):
        oracle.kill_one()
        await oracle.check()
    assert oracle.killed > rounds / 2, f"seed {oracle.seed}"
    assert oracle.told, f"seed {oracle.seed}"
