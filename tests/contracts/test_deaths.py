"""How often workers died in a row while they owned a goal: counted by claims, reset by progress, on every store."""

import asyncio
from dataclasses import replace
from itertools import count

import pytest

from perdure.app.home.system import SystemClock, SystemIds
from perdure.kernel.events import (
    Ask,
    Body,
    Decision,
    GoalBegun,
    Hold,
    Message,
    MindSpec,
    ModelTurn,
    OutcomeUnknown,
    Released,
    Signal,
    ToolCall,
    ToolOutput,
)
from perdure.kernel.fold import fold
from perdure.kernel.journal import Journal, JournalDeps
from perdure.kernel.ports import Worker
from tests.contracts.histories import OTHER, WORKER, Stored, begin

CALL = ToolCall("a.1", "a", "exec", {}, "idempotent")
QUESTION = Ask("b.1", "b", "Sure?")
CONTEXT = Message("hello", "context", "memory")
HELD = Hold("crash_loop", 3)
PROGRESS: tuple[Body, ...] = (
    ToolOutput("a.1", ok=True),
    ToolOutput("a.1", ok=False),
    Decision("b.1", "answer", "yes"),
    Signal("paid", 1),
    Released(),
    Message("hello"),
    ModelTurn(1, "m:one", "m"),
)
NO_PROGRESS: tuple[Body, ...] = (
    CONTEXT,
    OutcomeUnknown("a.1", "It may have happened."),
    Decision("b.1", "elapsed", by="timer"),
    HELD,
)


async def deaths(stored: Stored, goal_id: str = "g") -> int:
    return (await stored.store.find(goal_id)).deaths


def deps(stored: Stored, worker: Worker) -> JournalDeps:
    return JournalDeps(stored.store, SystemClock(), SystemIds(), worker)


async def killed(stored: Stored, goal_id: str = "g", *, times: int = 1) -> Journal:
    """Begin a goal with two open calls, let as many of its workers die, and return the journal of the one that lives.

    As a runner does, the journal begins with the deaths that the row has after the claim.
    """
    journal = Journal.begin(deps(stored, WORKER), GoalBegun("echo", MindSpec("command")), goal_id)
    journal.record(CALL, QUESTION, is_decision=True)
    await journal.commit()
    worker, epoch = WORKER, 1
    for number in range(times):
        worker = replace(WORKER, id=f"next{number}")
        epoch = await stored.leases.claim(goal_id, worker)
    state = fold(await stored.store.load(goal_id))
    return Journal(deps(stored, worker), state, epoch, deaths=await deaths(stored, goal_id))


async def test_a_claim_after_a_release_counts_no_death(stored: Stored) -> None:
    await begin(stored, release=True)
    epoch = await stored.leases.claim("g", OTHER)
    await stored.leases.release("g", OTHER, epoch)
    await stored.leases.claim("g", WORKER)
    assert await deaths(stored) == 0


async def test_a_claim_by_the_same_worker_counts_no_death(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.claim("g", WORKER)
    assert await deaths(stored) == 0


async def test_each_claim_after_an_owner_that_died_counts_one_death(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    stored.dead.add(WORKER.id)
    await stored.leases.claim("g", OTHER, "server")
    assert await deaths(stored) == 1
    await stored.leases.renew(OTHER, -1)
    await stored.leases.claim("g", replace(WORKER, id="third"))
    assert await deaths(stored) == 2


async def test_a_goal_that_is_released_keeps_the_deaths_before(stored: Stored) -> None:
    journal = await killed(stored, times=2)
    await journal.commit(release=True)
    await stored.leases.claim("g", OTHER)
    assert await deaths(stored) == 2


@pytest.mark.parametrize("body", PROGRESS, ids=lambda body: type(body).__name__)
async def test_progress_ends_the_row_of_deaths(stored: Stored, body: Body) -> None:
    journal = await killed(stored, times=2)
    if isinstance(body, Released):
        journal.record(HELD)
        await journal.commit()
        assert await deaths(stored) == 2
    journal.record(body)
    await journal.commit()
    assert await deaths(stored) == 0


@pytest.mark.parametrize("body", NO_PROGRESS, ids=lambda body: type(body).__name__)
async def test_what_is_no_progress_keeps_the_deaths(stored: Stored, body: Body) -> None:
    journal = await killed(stored, times=2)
    journal.record(body)
    await journal.commit()
    assert await deaths(stored) == 2


async def test_a_call_that_recovery_runs_again_keeps_the_deaths(stored: Stored) -> None:
    journal = await killed(stored)
    journal.record(OutcomeUnknown("a.1", "It is run again."), Decision("a.1", "approve", by="check"))
    await journal.commit()
    assert await deaths(stored) == 1


async def test_an_outcome_that_a_check_finds_at_recovery_ends_the_row_of_deaths(stored: Stored) -> None:
    journal = await killed(stored, times=2)
    journal.record(OutcomeUnknown("a.1", "Its check says that it happened."), ToolOutput("a.1", ok=True))
    await journal.commit()
    assert await deaths(stored) == 0


async def test_many_appends_in_a_row_keep_the_deaths_until_one_is_progress(stored: Stored) -> None:
    """SQLite has a shorter append for goals without deaths."""
    journal = await killed(stored, times=2)
    seen = []
    for body in (CONTEXT, CONTEXT, ToolOutput("a.1", ok=True), CONTEXT):
        journal.record(body)
        await journal.commit()
        seen.append(await deaths(stored))
    assert seen == [2, 2, 0, 0]
    assert await stored.store.load("g", after=journal.state.head.seq - 1) != []


async def test_appends_of_one_group_each_have_deaths_of_their_own(stored: Stored) -> None:
    names = [f"g{number}" for number in range(9)]
    journals = [await killed(stored, name, times=number % 3) for number, name in enumerate(names)]
    for journal, number in zip(journals, count()):
        journal.record(CONTEXT if number < 6 else ToolOutput("a.1", ok=True))
    await asyncio.gather(*(journal.commit() for journal in journals))
    assert [await deaths(stored, name) for name in names] == [0, 1, 2, 0, 1, 2, 0, 0, 0]


async def test_a_fork_of_a_goal_that_killed_its_workers_has_no_deaths_and_is_not_held(stored: Stored) -> None:
    journal = await killed(stored, times=3)
    journal.record(HELD)
    await journal.commit(release=True)
    fork = Journal.fork(deps(stored, OTHER), await stored.store.load("g"), "f")
    await fork.commit(release=True)
    found = await stored.store.find("f")
    assert (found.deaths, found.status, fork.state.hold) == (0, "open", None)
