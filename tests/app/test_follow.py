"""Followers read every event once and in order, also when a goal is reopened while they read."""

from typing import Any

from perdure.app.goals.goals import Goals
from perdure.kernel.events import Event, Reopened, Termination
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.contracts.histories import WORKER, History, Stored, begin


class BusyStore(InMemoryStateStore):
    """A store in which a goal is reopened between the look at it and the first page of its events, and ends after."""

    history: History | None = None

    async def load(self, goal_id: str, **options: Any) -> list[Event]:
        history, self.history = self.history, None
        if history is None:
            return await super().load(goal_id, **options)
        history.epoch = await self.claim(goal_id, WORKER, reopen=True)
        await history.append(Reopened("me", None, history.events[-1].seq))
        found = await super().load(goal_id, **options)
        await history.append(Termination("done"))
        return found


async def test_a_goal_that_is_reopened_meanwhile_is_followed_to_its_next_end(tmp_path: Any) -> None:
    store = BusyStore()
    history = await begin(Stored(store, store, set()), "g", Termination("failed"))
    goals = Goals(tmp_path, store, store)
    store.history = history
    seen = [event.seq async for event in goals.follow("g")]
    assert seen == [1, 2, 3, 4]
    assert [event.seq async for event in goals.follow("g", after=2)] == [3, 4]
