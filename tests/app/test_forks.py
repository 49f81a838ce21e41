"""Forks, comparisons, exports and deletions, as a Python program uses them, on each kind of store."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path

import pytest

from perdure import Conflict, Goal, GoalWaiting, Invalid, NotFound, Unavailable, current_step, failpoints, flow
from perdure.app.goals.goals import Goals
from perdure.errors import KeyTaken
from perdure.kernel.events import ForkedFrom
from tests.app.parked import parked
from tests.test_docs import ROOT, blocks

CALLS: list[str] = []
GATES: list[asyncio.Event] = []
"""What the next step that is held waits for; without one it goes on."""


def note(word: str) -> str:
    CALLS.append(word)
    return word


async def held() -> str:
    CALLS.append(current_step().idempotency_key)
    if GATES:
        reached, go = GATES.pop(), GATES.pop()
        reached.set()
        await go.wait()
    return "held"


@flow
async def asking(goal: Goal) -> list[str]:
    first = await goal.step(note, "first")
    answer = await goal.ask("Go on?", ["yes", "no"])
    return [first, answer, await goal.step(note, "last")]


@flow
async def holding(goal: Goal) -> list[str]:
    return [await goal.step(note, "first"), await goal.step(held)]


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()
    GATES.clear()


async def asked(goals: Goals) -> str:
    """Return a goal that waits for an answer: goal, first, its outcome, the question."""
    goal_id = (await parked(goals.run(asking))).id
    assert [event.type for event in await goals.history(goal_id)] == ["goal", "action", "tool_output", "action"]
    return goal_id


async def answered(goals: Goals, goal_id: str, answer: str) -> object:
    if (await goals.find(goal_id)).summary.waiting_for is None:
        assert (await goals.resume_run(goal_id)).outcome == "waiting"
    await goals.decide(goal_id, "answer", value=answer)
    return (await goals.resume(goal_id)).value


async def test_a_fork_at_an_open_call_asks_it_again_and_leaves_the_parent_unchanged(goals: Goals) -> None:
    goal_id = await asked(goals)
    fork = (await goals.fork(goal_id, 4)).summary
    assert fork.forked_from is not None
    assert (fork.forked_from.goal_id, fork.forked_from.seq) == (goal_id, 4)
    state = await goals.state(fork.goal_id)
    assert (state.begun.voided, dict(state.open_calls)) == (("/ask#0.1",), {})
    before = await goals.history(goal_id)
    assert await answered(goals, fork.goal_id, "yes") == ["first", "yes", "last"]
    assert await goals.history(goal_id) == before
    assert await answered(goals, goal_id, "no") == ["first", "no", "last"]
    assert CALLS == ["first", "last", "last"]
    for each in (goal_id, fork.goal_id):
        assert (await goals.replay(each)).state.status == "done"


async def test_a_fork_of_a_finished_goal_parts_from_it_where_it_was_forked(goals: Goals) -> None:
    goal_id = await asked(goals)
    await answered(goals, goal_id, "no")
    fork = (await goals.fork(goal_id, 4)).summary.goal_id
    assert await answered(goals, fork, "yes") == ["first", "yes", "last"]
    parted = await goals.compare(goal_id, fork)
    assert parted.common == 4
    assert [parted.left[0].seq, parted.right[0].seq] == [5, 6]
    same = (await goals.fork(goal_id, 5)).summary.goal_id
    assert (await goals.resume(same)).value == ["first", "no", "last"]
    assert not any((await goals.compare(goal_id, same)).left)


async def test_a_fork_of_a_fork_has_the_events_of_all_and_continues_by_itself(goals: Goals) -> None:
    goal_id = await asked(goals)
    first = (await goals.fork(goal_id, 3)).summary.goal_id
    assert await answered(goals, first, "no") == ["first", "no", "last"]
    second = (await goals.fork(first, 6)).summary.goal_id
    third = (await goals.fork(second, 3)).summary
    history = await goals.history(second)
    assert [event.seq for event in history] == [1, 2, 3, 4, 5, 6, 7]
    assert [event.goal_id for event in history] == [goal_id] * 3 + [first] * 3 + [second]
    assert third.forked_from is not None
    assert third.forked_from.goal_id == goal_id, "what it keeps, the first of them has written"
    assert (await goals.resume(second)).value == ["first", "no", "last"]
    assert await answered(goals, third.goal_id, "yes") == ["first", "yes", "last"]
    assert CALLS == ["first", "last", "last", "last"]
    for each in (goal_id, first, second, third.goal_id):
        await goals.replay(each)


async def test_a_fork_of_a_running_goal_runs_beside_it(goals: Goals) -> None:
    reached, go = asyncio.Event(), asyncio.Event()
    GATES.extend([go, reached])
    running = asyncio.create_task(goals.run(holding))
    await reached.wait()
    (parent,) = await goals.list()
    goal_id = parent.summary.goal_id
    assert parent.status == "running"
    before = await goals.history(goal_id)
    with pytest.raises(Conflict, match="may have happened"):
        await goals.fork(goal_id, len(before))
    fork = (await goals.fork(goal_id, len(before), repeat=["held"])).summary.goal_id
    assert (await goals.find(fork)).status == "interrupted"
    assert (await goals.resume(fork)).value == ["first", "held"]
    assert (await goals.find(goal_id)).status == "running"
    assert await goals.history(goal_id) == before
    go.set()
    assert (await running).value == ["first", "held"]
    assert [f"{goal_id}//held#0.1", f"{fork}//held#0.1"] == CALLS[1:]
    parted = await goals.compare(goal_id, fork)
    assert [event.type for event in parted.left] == ["tool_output", "termination"]
    assert [event.type for event in parted.right] == ["action", "tool_output", "termination"], "its intent is its own"
    for each in (goal_id, fork):
        assert (await goals.replay(each)).state.status == "done"


async def test_no_point_that_is_accepted_repeats_a_step_that_was_begun_before_it(goals: Goals) -> None:
    goal_id = await asked(goals)
    await answered(goals, goal_id, "no")
    history = await goals.history(goal_id)
    accepted = []
    for at in range(1, len(history) + 1):
        try:
            fork = await goals.fork(goal_id, at)
        except Conflict:
            continue
        accepted.append(at)
        begun = [event.content()["call_id"] for event in history[:at] if event.content().get("kind") == "tool_call"]
        CALLS.clear()
        if (await goals.resume_run(fork.id)).outcome == "waiting":
            await answered(goals, fork.id, "no")
        assert len(CALLS) == 2 - len(begun), f"event {at}"
    assert accepted == [1, 3, 4, 5, 7]


async def test_a_fork_is_made_before_or_after_a_step(goals: Goals) -> None:
    goal_id = await asked(goals)
    await answered(goals, goal_id, "no")
    for place, seq in (
        ({"before": "note#0"}, 1),
        ({"after": "note#0"}, 3),
        ({"before": "ask"}, 3),
        ({"after": "ask"}, 5),
    ):
        fork = await goals.fork(goal_id, **place)  # type: ignore[arg-type]
        assert fork.summary.forked_from == ForkedFrom(goal_id, seq)
    with pytest.raises(NotFound, match="Its steps are /note#0, /ask#0, /note#1"):
        await goals.fork(goal_id, before="ship")


async def test_the_start_key_finds_the_fork_that_has_taken_it(goals: Goals) -> None:
    goal_id = (await parked(goals.options(key="k").run(asking))).id
    fork = await goals.fork(goal_id, before="ask", take_key=True)
    assert (await parked(goals.options(key="k").run(asking))).id == fork.id
    assert (await goals.find(goal_id)).summary.start_key is None
    with pytest.raises(Invalid, match="has no start key"):
        await goals.fork(goal_id, before="ask", take_key=True)
    again = await goals.fork(fork.id, at=1, take_key=True)
    assert (await parked(goals.options(key="k").run(asking))).id == again.id


async def test_the_same_key_makes_the_same_fork_and_no_other(goals: Goals) -> None:
    goal_id = (await parked(goals.options(key="k").run(asking))).id
    for take_key in (False, True):
        made = [
            await goals.fork(goal_id, **place, take_key=take_key, key=f"call {take_key}")
            for place in ({"before": "ask"}, {"before": "ask"}, {"at": 3})
        ]
        assert len({fork.id for fork in made}) == 1
        assert [fork.is_news for fork in made] == [True, False, False]
        for place in ({"after": "ask"}, {"at": 1}):
            with pytest.raises(Conflict):
                await goals.fork(goal_id, **place, take_key=take_key, key=f"call {take_key}")
        said = f"The key 'call {take_key}' already started {made[0].id}, which is not a fork of {goal_id} at event 3"
        with pytest.raises(KeyTaken, match=said):
            await goals.fork(goal_id, before="ask", take_key=not take_key, key=f"call {take_key}")
    assert len(await goals.list()) == 3


async def test_the_same_call_made_many_times_at_once_takes_the_key_for_one_fork(goals: Goals) -> None:
    goal_id = (await parked(goals.options(key="k").run(asking))).id
    calls = [goals.fork(goal_id, before="ask", take_key=True, key="call") for _ in range(5)]
    assert len({fork.id for fork in await asyncio.gather(*calls)}) == 1


async def test_of_rivals_that_take_the_key_one_has_it_and_the_others_leave_no_fork(goals: Goals) -> None:
    goal_id = (await parked(goals.options(key="k").run(asking))).id
    calls = [goals.fork(goal_id, before="ask", take_key=True) for _ in range(5)]
    done = await asyncio.gather(*calls, return_exceptions=True)
    (fork,) = [each for each in done if not isinstance(each, BaseException)]
    assert sum(isinstance(each, Conflict | Invalid) for each in done) == 4
    assert {view.id for view in await goals.list()} == {goal_id, fork.id}


async def test_there_is_no_fork_outside_of_a_history_or_at_its_end(goals: Goals) -> None:
    goal_id = await asked(goals)
    await answered(goals, goal_id, "no")
    last = len(await goals.history(goal_id))
    for at in (0, -1, last, last + 1, 99):
        with pytest.raises(Conflict):
            await goals.fork(goal_id, at)
    with pytest.raises(NotFound):
        await goals.fork("nothing", 1)
    assert len(await goals.list()) == 1


async def test_a_goal_is_deleted_after_its_forks_and_theirs(goals: Goals) -> None:
    goal_id = await asked(goals)
    await goals.cancel(goal_id)
    first = (await goals.fork(goal_id, 3)).summary.goal_id
    second = (await goals.fork(first, 4)).summary.goal_id
    with pytest.raises(Conflict, match="has not finished"):
        await goals.delete(first)
    for each in (first, second):
        await goals.cancel(each)
    for parent, fork in ((goal_id, first), (first, second)):
        before = await goals.history(parent)
        with pytest.raises(Conflict, match=f"has a fork, {fork}"):
            await goals.delete(parent)
        assert await goals.history(parent) == before
    assert len(await goals.list()) == 3
    for each in (second, first, goal_id):
        assert await goals.delete(each) == each
        with pytest.raises(NotFound):
            await goals.history(each)
    assert await goals.list() == []


async def test_every_export_has_hashes_that_the_lines_of_the_page_verify(goals: Goals, tmp_path: Path) -> None:
    goal_id = await asked(goals)
    first = (await goals.fork(goal_id, 4)).summary.goal_id
    second = (await goals.fork(first, 5)).summary.goal_id
    await answered(goals, second, "yes")
    file = tmp_path / "history.jsonl"
    for each in (goal_id, first, second):
        events = await goals.history(each)
        file.write_text("".join(f"{event.line()}\n" for event in events))
        assert verified(file) == f"{len(events)} events, last hash {events[-1].hash.hex()}\n"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:5], *lines[6:]]))
    assert verified(file) == "Event 6 is not as it was written.\n"
    file.write_text("".join(lines).replace('"answer"', '"Answer"'))
    assert verified(file) == "Event 8 is not as it was written.\n"


def verified(file: Path) -> str:
    (program,) = blocks((ROOT / "docs/how-to/export-a-history.md").read_text(), "python")
    done = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@flow
async def paying(goal: Goal) -> str:
    return await goal.options(name="charge").step(note, "charge")


async def killed(running: Awaitable[object], effect: str) -> None:
    """Let a worker die after an effect and before that is recorded."""

    def die() -> None:
        if effect in CALLS:
            raise Unavailable("It died.")

    with failpoints.armed("kernel.append.before", die), pytest.raises(Unavailable):
        await running


async def test_a_step_of_a_dead_worker_is_not_repeated_by_a_fork_before_it_until_it_is_settled(goals: Goals) -> None:
    await killed(goals.run(paying), "charge")
    goal_id = (await goals.list())[0].id
    with pytest.raises(Conflict, match=f"would repeat /charge#0.1, .*first: perdure goal resume {goal_id}"):
        await goals.fork(goal_id, before="charge")
    with pytest.raises(GoalWaiting):
        await goals.resume(goal_id)
    with pytest.raises(Conflict, match=f"would repeat /charge#0.1, .*goal decide {goal_id} '/charge#0.1' skip"):
        await goals.fork(goal_id, before="charge")
    assert len(await goals.list()) == 1
    wanted = await goals.fork(goal_id, before="charge", repeat=["charge"])
    await goals.decide(goal_id, "skip", value="charge")
    assert CALLS == ["charge"]
    for fork in (wanted, await goals.fork(goal_id, before="charge")):
        assert (await goals.resume(fork.id)).value == "charge"
    assert CALLS == ["charge"] * 3


async def test_a_key_finds_its_fork_also_when_the_goal_has_begun_a_step_since_then(goals: Goals) -> None:
    goal_id = await asked(goals)
    fork = await goals.fork(goal_id, before="ask", key="call")
    await goals.decide(goal_id, "answer", value="no")
    await killed(goals.resume(goal_id), "last")
    assert (await goals.fork(goal_id, before="ask", key="call")).id == fork.id
    with pytest.raises(Conflict, match="would repeat /note#1.1"):
        await goals.fork(goal_id, before="ask", key="another")
