"""Followers of a goal that was reopened, and notes on what was sent to a goal, over HTTP."""

from functools import partial

from perdure.app import Perdure
from perdure.app.home.system import SystemClock, is_dead, observer
from perdure.client import Client
from perdure.kernel.events import Reopened, Termination
from tests.contracts.histories import History, Stored

ASKS = 'goal: a question\nsteps:\n  - {id: sure, ask: {question: "Publish?"}}\n'


async def reopen_and_end(home: Perdure, goal_id: str) -> None:
    """Reopen a failed goal as another worker does, and end it again."""
    leases = home.database.leases(boottime_s=SystemClock().boottime_s, is_dead=partial(is_dead, home.settings.home))
    stored = Stored(home.database.state_store(), leases, set())
    worker = observer(home.settings.home, "another-worker")
    history = History(stored, goal_id, events=list(await home.goals.history(goal_id)), worker=worker)
    history.epoch = await leases.claim(goal_id, worker, reopen=True)
    await history.append(Reopened("me", None, history.events[-1].seq), Termination("failed"))


async def test_the_client_follows_a_reopened_goal_past_its_first_end(client: Client, home: Perdure) -> None:
    goal = await client.goals.create(command="false")
    first = [event["seq"] async for event in client.goals.follow(goal["id"])]
    await reopen_and_end(home, goal["id"])
    seen = [event["seq"] async for event in client.goals.follow(goal["id"])]
    assert seen == [*first, first[-1] + 1, first[-1] + 2]
    assert [event["seq"] async for event in client.goals.follow(goal["id"], after_seq=first[-1])] == seen[-2:]


async def test_a_signal_that_nothing_waits_for_is_noted_in_the_detail(client: Client) -> None:
    goal = await client.goals.create(plan=ASKS)
    async for event in client.goals.follow(goal["id"]):
        if event["payload"].get("kind") == "ask":
            break
    told = await client.goals.signal(goal["id"], "payed")
    assert told["detail"] is not None
    assert told["detail"].startswith("Nothing waits for signal 'payed' now")
