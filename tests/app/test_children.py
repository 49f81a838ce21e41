"""Children of goals: own history and result, failure, cancel tree, retry, waiting, forks and deletion."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure import Goal, GoalFailed, GoalWaiting, Limits, Perdure, StepFailed, flow
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import new_goal
from perdure.errors import Conflict, Invalid, NotFound
from perdure.kernel.calls.children import MAX_DEPTH, end_key, start_key
from perdure.kernel.events import Termination, ToolCall, decode
from tests.app.serving import at_work, become

_calls: list[str] = []
_is_broken = False
_releases: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    _calls.clear()
    globals()["_is_broken"] = False


def _note(text: str) -> str:
    _calls.append(text)
    return text


def _fail_when_broken(text: str) -> str:
    _calls.append(text)
    if _is_broken:
        raise ValueError(f"{text} is broken")
    return text


@dataclass
class Receipt:
    number: int


@flow
async def pay(goal: Goal, amount: int) -> Receipt:
    await goal.step(_note, f"pay {amount}")
    return Receipt(amount)


@flow
async def shop(goal: Goal, amounts: list[int]) -> list[int]:
    receipts = await goal.gather(*(goal.child(pay, amount) for amount in amounts))
    return [receipt.number for receipt in receipts]


@flow
async def fragile(goal: Goal, text: str) -> str:
    return await goal.step(_fail_when_broken, text)


@flow
async def careless(goal: Goal) -> str:
    await goal.step(_note, "before")
    return await goal.child(fragile, "child")


async def _clean_up() -> None:
    _calls.append("clean up")
    await _releases["clean up"].wait()


@flow(cleanup=True)
async def tidy(goal: Goal) -> None:
    try:
        await goal.signal("never")
    finally:
        await goal.options(effect="idempotent").step(_clean_up)


@flow
async def changing_its_mind(goal: Goal) -> str:
    child = asyncio.create_task(goal.child(tidy))
    await goal.signal("go")
    child.cancel()
    await asyncio.wait([child])
    return "changed"


@flow
async def grandparent(goal: Goal) -> str:
    return await goal.child(careless)


@flow
async def careful(goal: Goal) -> list[str | None]:
    try:
        await goal.child(fragile, "child")
    except GoalFailed as error:
        return [type(error).__name__, error.id, error.reason, error.detail, error.traceback]
    return []


@flow
async def asks(goal: Goal, question: str) -> str:
    return str(await goal.ask(question, ["yes", "no"]))


@flow
async def asks_below(goal: Goal) -> str:
    return await goal.child(asks, "Publish?")


@flow
async def asks_far_below(goal: Goal) -> str:
    answer = await goal.child(asks_below)
    return await goal.step(_note, f"answered {answer}")


@flow
async def impatient(goal: Goal) -> str:
    try:
        async with goal.timeout(0.2):
            return await goal.child(asks, "Publish?")
    except TimeoutError:
        return await goal.step(_note, "too late")


@flow
async def misused(goal: Goal, option: str) -> None:
    wrong: dict[str, object] = {"effect": "pure", "retry": 2, "timeout_s": 1.0, "key": "k", "limits": Limits(usd=1)}
    options = goal.options(**{option: wrong[option]})  # type: ignore[arg-type]
    if option in ("key", "limits"):
        await options.step(_note, "x")
    else:
        await options.child(pay, 1)


@flow
async def keyed(goal: Goal) -> int:
    return (await goal.options(key="the-payment", limits=Limits(usd=1), name="paid", id="x").child(pay, 7)).number


@flow
async def tree(goal: Goal, depth: int, width: int) -> int:
    if depth == 0:
        return 1
    return sum(await goal.gather(*(goal.child(tree, depth - 1, width) for _ in range(width))))


@flow
async def leaves_a_child(goal: Goal) -> None:
    waiting = asyncio.create_task(goal.child(asks, "Publish?"))
    await goal.step(_note, "begun")
    await goal.step(_note, "and")
    if not waiting.done():
        raise ValueError("gone")


@flow
async def stays(goal: Goal) -> str:
    return await goal.options(effect="idempotent").step(_forever)


@flow
async def stays_below(goal: Goal) -> None:
    await goal.gather(goal.child(stays), goal.child(asks, "Publish?"))


async def _forever() -> str:
    _calls.append("begun")
    await asyncio.Event().wait()
    return ""


async def _children(goals: Goals, goal_id: str) -> list[str]:
    return [child.id for child in reversed(await goals.children_of(goal_id))]


async def _leaf(goals: Goals) -> str:
    """Wait for the child that asks, and return its id."""
    while True:
        leaves = await goals.list(flow="asks", status="waiting")
        if leaves:
            return leaves[0].id
        await asyncio.sleep(0.02)


async def test_a_child_has_a_history_and_a_typed_result_of_its_own(goals: Goals) -> None:
    done = await goals.run(shop, [3, 4])

    assert done.value == [3, 4]
    children = await goals.children_of(done.id)
    assert [child.status for child in children] == ["done", "done"]
    assert {child.summary.parent.goal_id for child in children if child.summary.parent} == {done.id}
    intents = [body for event in await goals.history(done.id) if isinstance(body := decode(event), ToolCall)]
    assert [(call.tool, call.effect) for call in intents] == [("child", "idempotent")] * 2
    assert {call.arguments["goal_id"] for call in intents} == {child.id for child in children}
    assert {child.summary.start_key for child in children} == {f"child:{done.id}/{call.call_id}" for call in intents}
    assert sorted(_calls) == ["pay 3", "pay 4"]
    assert (await goals.replay(done.id)).state.status == "done"


async def test_the_failure_of_a_child_is_raised_in_its_parent(goals: Goals) -> None:
    globals()["_is_broken"] = True
    done = await goals.run(careful)

    kind, child_id, reason, detail, traceback = done.value
    assert [child_id] == await _children(goals, done.id)
    assert (kind, reason) == ("GoalFailed", (await goals.get(str(child_id))).reason)
    assert "child is broken" in str(detail)
    assert "_fail_when_broken" in str(traceback)


async def test_the_retry_of_a_parent_retries_its_failed_child(goals: Goals) -> None:
    globals()["_is_broken"] = True
    with pytest.raises(GoalFailed) as failed:
        await goals.run(grandparent)
    assert failed.value.reason == "failed"
    children = await _children(goals, failed.value.id)
    below = await _children(goals, children[0])

    globals()["_is_broken"] = False
    done = await goals.retry(failed.value.id)

    assert done.value == "child"
    assert _calls == ["before", "child", "child"]
    assert await _children(goals, failed.value.id) == children
    assert await _children(goals, children[0]) == below
    assert [(await goals.get(each)).status for each in (*children, *below)] == ["done", "done"]


async def test_a_parent_whose_child_was_retried_by_hand_gets_the_result_at_its_retry(goals: Goals) -> None:
    globals()["_is_broken"] = True
    with pytest.raises(GoalFailed) as failed:
        await goals.run(careless)
    [child] = await _children(goals, failed.value.id)
    globals()["_is_broken"] = False
    assert (await goals.retry(child)).value == "child"
    assert (await goals.get(failed.value.id)).status == "failed"

    assert (await goals.retry(failed.value.id)).value == "child"
    assert _calls == ["before", "child", "child"]


async def test_a_parent_whose_child_was_cancelled_is_not_retried(goals: Goals) -> None:
    with pytest.raises(GoalWaiting):
        await goals.run(asks_below)
    [parent] = [goal.id for goal in await goals.list(flow="asks_below")]
    [child] = await _children(goals, parent)
    await goals.cancel(child)

    with pytest.raises(GoalFailed, match=child):
        await goals.resume(parent)
    with pytest.raises(Conflict, match=child):
        await goals.retry(parent)


async def test_a_parent_waits_for_a_person_whom_a_child_of_a_child_asks(goals: Goals) -> None:
    with pytest.raises(GoalWaiting) as waiting:
        await goals.run(asks_far_below)
    parent = waiting.value.id
    [child] = await _children(goals, parent)
    [leaf] = await _children(goals, child)
    assert waiting.value.waiting_for == "child"
    assert [question.question for question in waiting.value.questions] == ["Publish?"]
    assert f"goal answer {leaf}" in str(waiting.value)
    seen = await goals.get(parent)
    assert (seen.status, seen.summary.waiting_for, seen.is_running) == ("waiting", "child", False)

    await goals.decide(leaf, "answer", value="yes")
    done = await goals.resume(parent)
    assert done.value == "answered yes"


async def test_a_child_that_is_answered_and_ends_alone_makes_its_parent_open(goals: Goals) -> None:
    with pytest.raises(GoalWaiting):
        await goals.run(asks_below)
    [parent] = [goal.id for goal in await goals.list(flow="asks_below")]
    [child] = await _children(goals, parent)

    await goals.decide(child, "answer", value="no")
    assert (await goals.resume(child)).value == "no"

    assert (await goals.get(parent)).status == "interrupted"
    assert (await goals.resume(parent)).value == "no"


async def test_the_cancel_of_a_parent_ends_its_children_first(goals: Goals) -> None:
    with pytest.raises(GoalWaiting):
        await goals.run(asks_far_below)
    [parent] = [goal.id for goal in await goals.list(flow="asks_far_below")]
    [child] = await _children(goals, parent)
    [leaf] = await _children(goals, child)

    assert (await goals.cancel(parent)).status == "cancelled"

    ends = [(await goals.history(goal_id))[-1] for goal_id in (leaf, child, parent)]
    assert [event.type for event in ends] == ["termination"] * 3
    assert [event.timestamp_us for event in ends] == sorted(event.timestamp_us for event in ends)
    assert {(await goals.get(each)).status for each in (leaf, child, parent)} == {"cancelled"}


async def test_a_child_that_the_flow_gives_up_is_cancelled(goals: Goals) -> None:
    done = await goals.run(impatient)

    assert done.value == "too late"
    [child] = await goals.children_of(done.id)
    assert child.status == "cancelled"
    outputs = [event.content() for event in await goals.history(done.id) if event.type == "tool_output"]
    assert outputs[0]["error"]["code"] == "cancelled"


async def test_a_parent_is_due_until_the_child_that_it_cancels_has_ended(goals: Goals) -> None:
    released = _releases["clean up"] = asyncio.Event()
    handle = await goals.start(changing_its_mind)
    async with asyncio.timeout(20):
        while (await goals.get(handle.id)).summary.waiting_for != "child":  # noqa: ASYNC110 (as stored)
            await asyncio.sleep(0.01)
        await goals.signal(handle.id, "go")
        while "clean up" not in _calls:  # noqa: ASYNC110 (the step is in another task)
            await asyncio.sleep(0.01)
        assert (await goals.get(handle.id)).summary.due_us is not None, "nobody would end the child after a kill"
        released.set()
        assert (await handle.result()).value == "changed"


async def test_a_child_that_a_failed_flow_leaves_is_cancelled(goals: Goals) -> None:
    with pytest.raises(GoalFailed, match="gone") as failed:
        await goals.run(leaves_a_child)
    [child] = await goals.children_of(failed.value.id)
    assert child.status == "cancelled"


async def test_the_cancel_of_a_parent_that_runs_ends_children_that_run(goals: Goals) -> None:
    handle = await goals.start(stays_below)
    async with asyncio.timeout(20):
        await _leaf(goals)
        while not _calls:  # noqa: ASYNC110 (the step is in another task)
            await asyncio.sleep(0.01)
        assert (await handle.cancel()).status == "cancelled"
    children = await goals.children_of(handle.id)
    assert [child.status for child in children] == ["cancelled", "cancelled"]
    ended = (await goals.get(handle.id)).summary.updated_us
    assert all(child.summary.updated_us <= ended for child in children)


@pytest.mark.parametrize("option", ["effect", "retry", "timeout_s", "key", "limits"])
async def test_an_option_that_does_not_fit_the_call_is_refused(goals: Goals, option: str) -> None:
    with pytest.raises(GoalFailed, match=f"{option} is not an option of goal"):
        await goals.run(misused, option)
    assert len(await goals.list()) == 1


async def test_a_child_has_options_of_a_start(goals: Goals) -> None:
    done = await goals.run(keyed)

    assert done.value == 7
    [child] = await goals.children_of(done.id)
    assert child.summary.start_key == "the-payment"
    assert (await goals.begun(child.id)).limits == Limits(usd=1)

    with pytest.raises(GoalFailed, match="the-payment"):
        await goals.run(keyed)  # its key has started the child of another goal


async def test_a_fork_keeps_settled_children_and_starts_open_ones_again(goals: Goals) -> None:
    with pytest.raises(GoalWaiting):
        await goals.run(asks_below)
    [parent] = [goal.id for goal in await goals.list(flow="asks_below")]
    [child] = await _children(goals, parent)

    fork = await goals.fork(parent, before="asks")
    with pytest.raises(GoalWaiting):
        await goals.resume(fork.id)
    [other] = await _children(goals, fork.id)
    assert other != child

    await goals.decide(other, "answer", value="yes")
    assert (await goals.resume(fork.id)).value == "yes"
    again = await goals.fork(fork.id, after="asks")
    assert (await goals.resume(again.id)).value == "yes"
    assert await _children(goals, again.id) == []
    assert (await goals.get(child)).status == "waiting"


async def test_a_parent_is_deleted_with_its_finished_children(goals: Goals) -> None:
    done = await goals.run(shop, [1, 2])
    children = await _children(goals, done.id)

    await goals.delete(done.id)

    for goal_id in (done.id, *children):
        with pytest.raises(NotFound):
            await goals.get(goal_id)


async def test_a_goal_with_an_unfinished_relative_is_not_deleted(goals: Goals) -> None:
    with pytest.raises(GoalWaiting):
        await goals.run(asks_below)
    [parent] = [goal.id for goal in await goals.list(flow="asks_below")]
    [child] = await _children(goals, parent)
    await goals.decide(child, "answer", value="no")
    await goals.resume(child)

    with pytest.raises(Conflict, match=f"child of {parent}"):
        await goals.delete(child)


async def test_children_are_listed_by_their_parent(goals: Goals) -> None:
    done = await goals.options(key="family").run(shop, [1, 2])
    await goals.run(pay, 3)

    for name in (done.id, done.id[:-1], "key:family"):
        assert {goal.id for goal in await goals.list(parent=name)} == set(await _children(goals, done.id))
    assert await goals.list(parent="key:nobody") == []
    with pytest.raises(Invalid):
        await goals.list(parent=" ")


async def test_children_of_children_run_side_by_side(goals: Goals) -> None:
    assert (await goals.run(tree, 3, 3)).value == 27


async def test_a_started_goal_follows_its_children(goals: Goals) -> None:
    handle = await goals.start(asks_far_below)
    async with asyncio.timeout(20):
        leaf = await _leaf(goals)
        await goals.decide(leaf, "answer", value="yes")
        assert (await handle.result()).value == "answered yes"


@pytest.mark.parametrize(("depth", "width"), [(4, 2), (2, 6)])
async def test_nested_children_end_on_a_server_with_two_slots(
    database_url: str, tmp_path: Path, depth: int, width: int
) -> None:
    async with Perdure.open(tmp_path / "home", database_url=database_url) as p, at_work(p, most=2) as serving:
        started = await serving.start(new_goal(tree, (depth, width)))
        async with asyncio.timeout(60):
            done = await become(p, started.id, "done")
        assert (await p.goals.state(done.id)).termination == Termination("done", value=width**depth)
        assert {goal.summary.queue for goal in await p.goals.list(limit=500)} == {"server"}


async def test_a_server_resumes_a_parent_whose_child_was_answered(database_url: str, tmp_path: Path) -> None:
    async with Perdure.open(tmp_path / "home", database_url=database_url) as p, at_work(p) as serving:
        started = await serving.start(new_goal(asks_far_below))
        async with asyncio.timeout(60):
            leaf = await _leaf(p.goals)
            await become(p, started.id, "waiting")
            await p.goals.decide(leaf, "answer", value="no")
            done = await become(p, started.id, "done")
        assert (await p.goals.look_into(done)).termination == Termination("done", value="answered no")


async def test_an_application_recovers_parents_and_children(database_url: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with Perdure.open(home, database_url=database_url, app="shop") as p:
        handle = await p.goals.start(asks_far_below)
        async with asyncio.timeout(60):
            leaf = await _leaf(p.goals)
    async with Perdure.open(home, database_url=database_url, app="shop", recover=True) as p:
        assert {goal.summary.queue for goal in await p.goals.list()} == {"app.shop"}
        await p.goals.decide(leaf, "answer", value="yes")
        assert (await (await p.goals.handle(handle.id)).result(timeout_s=60)).value == "answered yes"


@flow
async def shop_with_a_key(goal: Goal) -> int:
    return (await goal.options(key="taken").child(pay, 4)).number


async def test_a_child_whose_key_was_taken_starts_when_its_parent_is_retried(goals: Goals) -> None:
    other = await goals.options(key="taken").run(pay, 4)
    with pytest.raises(GoalFailed) as failed:
        await goals.run(shop_with_a_key)
    await goals.delete(other.id)
    assert (await goals.retry(failed.value.id)).value == 4


async def test_a_conflict_of_keys_says_what_a_person_can_do(goals: Goals) -> None:
    other = await goals.options(key="taken").run(pay, 4)
    with pytest.raises(GoalFailed, match=f"Use another key .*goal delete {other.id}.*goal retry"):
        await goals.run(shop_with_a_key)


@flow
async def endless(goal: Goal, depth: int) -> int:
    try:
        return await goal.child(endless, depth + 1)
    except StepFailed as error:
        return depth if error.code == "too_deep" else -1


@flow
async def endless_and_careless(goal: Goal) -> None:
    await goal.child(endless_and_careless)


async def test_a_flow_that_starts_itself_without_end_is_stopped(goals: Goals) -> None:
    result = await goals.run(endless, 0)
    assert result.value == MAX_DEPTH
    assert len(await goals.list(limit=100)) == MAX_DEPTH + 1


@flow
async def keyed_like_a_child(goal: Goal) -> None:
    await goal.options(key="child:x").child(pay, 1)


async def test_a_user_cannot_take_the_key_of_a_child(goals: Goals) -> None:
    waiting = await goals.options(on_failed="return").start(asks, "Publish?")
    key = start_key(waiting.id, "a:1:1")
    with pytest.raises(Invalid, match="reserved for children"):
        await goals.options(key=key).run(pay, 1)
    with pytest.raises(Invalid, match="reserved for children"):
        await goals.signal(waiting.id, "go", key=end_key("a-child", 3))
    with pytest.raises(GoalFailed, match="Invalid key 'child:x'"):
        await goals.run(keyed_like_a_child)
    assert [goal.text for goal in await goals.list(key=key)] == []


async def test_the_end_of_a_chain_of_children_names_the_nearest_and_the_first_that_failed(goals: Goals) -> None:
    with pytest.raises(GoalFailed) as failed:
        await goals.run(endless_and_careless)
    [nearest] = await goals.children_of(failed.value.id)
    every = await goals.list(limit=100)
    [deepest] = [goal for goal in every if not await goals.children_of(goal.id)]
    expected = f"The child {nearest.id} failed: … The child {deepest.id} failed: too_deep: The child was not started."
    assert (failed.value.detail or "").startswith(expected)
    assert f"nested at most {MAX_DEPTH} deep" in (failed.value.detail or "")
