"""Goals that bots delegate: children within policy and budget of their parent, found again after a crash."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from perdure import GoalWaiting, Limits, Perdure
from perdure.kernel.fold import GoalState
from perdure.testing.model_server import ModelServer
from perdure.testing.model_server.answers import ScriptedAnswer, ScriptedCall
from tests import children
from tests.app.test_skills import built
from tests.crash.model_goals import run_goal

MODEL = "openai:gpt-5.4-mini"
ALLOWED = {"rules": [{"tool": "delegate", "verdict": "allow"}]}


@pytest.fixture
async def p(model_server: ModelServer, tmp_path: Path, own_url: str) -> AsyncIterator[Perdure]:  # noqa: ARG001 (its address is in the environment)
    async with Perdure.open(tmp_path / "home", database_url=own_url) as p:
        yield p


def delegates(*goals: str, bot: str = "assistant", match: str = "", **more: Any) -> ScriptedAnswer:
    """Answer with a delegation of each goal."""
    return ScriptedAnswer(
        calls=tuple(ScriptedCall("delegate", {"bot": bot, "goal": goal, **more}) for goal in goals), match=match
    )


def says(text: str, match: str = "") -> ScriptedAnswer:
    return ScriptedAnswer(text, match=match)


async def ran(p: Perdure, text: str = "Main.", *, policy: Any = ALLOWED, **options: Any) -> GoalState:
    result = await p.goals.options(model=MODEL, policy=policy, **options).run(text)
    return await p.goals.state(result.id)


def output(state: GoalState, call_id: str = "t1.1") -> Mapping[str, Any]:
    outcome = state.calls[call_id].outcome
    assert outcome is not None
    assert outcome.ok, outcome.error
    found: Mapping[str, Any] = outcome.output
    return found


def refusal(state: GoalState, call_id: str = "t1.1") -> str:
    outcome = state.calls[call_id].outcome
    assert outcome is not None
    assert outcome.error is not None
    return f"{outcome.error.code}: {outcome.error.message}"


async def test_a_bot_delegates_and_gets_the_answer_of_the_child(p: Perdure, model_server: ModelServer) -> None:
    bot = (await built(p, (await p.forge.start('a coding assistant called "Ada"')).session_id)).bot_slug
    model_server.script.add(delegates("Count.", bot=bot, match="Main."), says("Three.", "Count."))
    model_server.script.add(says("It is three.", "Main."))
    state = await ran(p)
    found = output(state)
    child = await p.goals.state(found["goal_id"])
    assert found == {"goal_id": child.goal_id, "status": "done", "value": "Three."}
    assert (child.begun.bot, child.begun.text, child.begun.workdir) == (bot, "Count.", state.begun.workdir)
    assert child.begun.parent is not None
    assert (child.begun.parent.goal_id, child.begun.parent.call_id) == (state.goal_id, "t1.1")
    assert state.termination is not None
    assert state.termination.value == "It is three."
    assert state.used.tokens > child.used.tokens > 0


async def test_a_delegation_asks_a_person_unless_a_rule_allows_it(p: Perdure, model_server: ModelServer) -> None:
    model_server.script.add(delegates("Count.", match="Main."), says("Three.", "Count."), says("It is three.", "Main."))
    with pytest.raises(GoalWaiting) as waiting:
        await ran(p, policy=None)
    assert waiting.value.waiting_for == "person"
    assert await p.goals.children_of(waiting.value.id) == []
    await p.goals.decide(waiting.value.id, "approve")
    assert (await p.goals.resume(waiting.value.id)).value == "It is three."
    assert len(await p.goals.children_of(waiting.value.id)) == 1


async def test_a_denied_delegation_starts_nothing(p: Perdure, model_server: ModelServer) -> None:
    model_server.script.add(delegates("Count.", match="Main."), says("Then not.", "Main."))
    state = await ran(p, policy={"rules": [{"tool": "delegate", "verdict": "deny"}]})
    assert refusal(state).startswith("denied")
    assert await p.goals.children_of(state.goal_id) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"bot": "nobody", "goal": "Count."}, "nobody"),
        ({"bot": "assistant"}, "goal must be a string"),
        ({"bot": "assistant", "goal": "Count.", "policy": "full"}, "no argument 'policy'"),
        ({"bot": "assistant", "goal": "Count.", "limits": {"usd": -1}}, "limits.usd must be a number above 0"),
        ({"bot": "assistant", "goal": "Count.", "limits": {"hours": 1}}, "limits has no key 'hours'"),
        ({"bot": ["x"], "goal": "Count."}, "bot must be a string"),
    ],
)
async def test_wrong_arguments_are_a_result_that_says_what_is_wrong(
    p: Perdure, model_server: ModelServer, arguments: dict[str, Any], said: str
) -> None:
    model_server.script.add(ScriptedAnswer(calls=(ScriptedCall("delegate", arguments),)), says("Done."))
    state = await ran(p)
    assert said in refusal(state)
    assert await p.goals.children_of(state.goal_id) == []


async def test_a_child_has_the_policy_and_the_rest_of_the_budget(p: Perdure, model_server: ModelServer) -> None:
    model_server.script.add(
        delegates("Count.", match="Main.", limits={"tokens": 10**9, "seconds": 60}),
        says("Three.", "Count."),
        says("It is three.", "Main."),
    )
    state = await ran(p, limits=Limits(tokens=100_000, iterations=7))
    child = await p.goals.state(output(state)["goal_id"])
    assert child.limits.tokens is not None
    assert 90_000 < child.limits.tokens < 100_000
    assert (child.limits.iterations, child.limits.seconds, child.limits.usd) == (7, 60, None)
    assert child.policy == state.policy


async def test_children_that_begin_together_share_what_is_left(p: Perdure, model_server: ModelServer) -> None:
    model_server.script.add(
        delegates("Count one.", "Count two.", match="Main."), says("Done.", "Count"), says("Both done.", "Main.")
    )
    state = await ran(p, limits=Limits(tokens=100_000))
    limits = [(await p.goals.state(output(state, each)["goal_id"])).limits.tokens for each in ("t1.1", "t1.2")]
    assert limits[0] == limits[1]
    assert sum(each or 0 for each in limits) < 100_000


async def test_goals_delegate_three_deep(p: Perdure, model_server: ModelServer) -> None:
    model_server.script.add(
        *(delegates(f"Level {depth + 1}.", match=f"Level {depth}.") for depth in range(4)),
        *(says("Done.", f"Level {depth}.") for depth in range(4)),
    )
    state = await ran(p, "Level 0.")
    for _ in range(3):
        state = await p.goals.state(output(state)["goal_id"])
    assert state.begun.text == "Level 3."
    assert refusal(state).startswith("too_deep: The child was not started.")


async def test_a_goal_has_at_most_sixteen_children(p: Perdure, model_server: ModelServer) -> None:
    model_server.script.add(
        delegates(*(f"Count {number}." for number in range(18)), match="Main."),
        says("Done.", "Count"),
        says("All done.", "Main."),
    )
    state = await ran(p)
    assert len(await p.goals.children_of(state.goal_id)) == 16
    assert [refusal(state, f"t1.{number}").split(":")[0] for number in (17, 18)] == ["too_many", "too_many"]


async def test_a_question_of_a_child_is_listed_under_the_child(p: Perdure, model_server: ModelServer) -> None:
    asks = ScriptedAnswer(calls=(ScriptedCall("ask", {"question": "Which?"}),), match="Count.")
    model_server.script.add(
        delegates("Count.", match="Main."), asks, says("Three.", "Count."), says("It is three.", "Main.")
    )
    with pytest.raises(GoalWaiting) as waiting:
        await ran(p)
    goal_id = waiting.value.id
    assert (await p.goals.get(goal_id)).summary.waiting_for == "child"
    (child,) = await p.goals.children_of(goal_id)
    assert child.summary.waiting_for == "person"
    await p.goals.decide(child.id, "answer", value="This one.")
    await p.goals.resume(child.id)
    result = await p.goals.resume(goal_id)
    assert result.value == "It is three."


async def test_a_cancel_of_the_parent_cancels_the_child(p: Perdure, model_server: ModelServer) -> None:
    asks = ScriptedAnswer(calls=(ScriptedCall("ask", {"question": "Which?"}),), match="Count.")
    model_server.script.add(delegates("Count.", match="Main."), asks)
    with pytest.raises(GoalWaiting) as waiting:
        await ran(p)
    await p.goals.cancel(waiting.value.id)
    (child,) = await p.goals.children_of(waiting.value.id)
    assert (child.status, (await p.goals.get(waiting.value.id)).status) == ("cancelled", "cancelled")


async def test_a_child_that_is_blocked_is_an_error_with_its_id(p: Perdure, model_server: ModelServer) -> None:
    blocked = ScriptedAnswer(calls=(ScriptedCall("blocked", {"reason": "No numbers."}),), match="Count.")
    model_server.script.add(delegates("Count.", match="Main."), blocked, says("It cannot be counted.", "Main."))
    state = await ran(p)
    assert refusal(state) == "child_failed: No numbers."
    outcome = state.calls["t1.1"].outcome
    assert outcome is not None
    (child,) = await p.goals.children_of(state.goal_id)
    assert outcome.output == {"goal_id": child.id, "status": child.status, "value": None}


@pytest.mark.parametrize(
    ("point", "hits"),
    [
        *((point, 1) for point in ("kernel.children.before", "kernel.children.after")),
        *((f"store.append.{when}", hits) for when in ("before", "after") for hits in range(2, 8)),
    ],
)
async def test_a_delegation_that_is_killed_starts_one_child(
    model_server: ModelServer, tmp_path: Path, own_url: str, point: str, hits: int
) -> None:
    model_server.script.add(delegates("Count.", match="Go."), says("Three.", "Count."), says("It is three.", "Go."))
    home = tmp_path / "home"
    children.run_until(point, run_goal, home, own_url, model_server.url, ALLOWED, hits=hits)
    async with Perdure.open(home, database_url=own_url) as p:
        (goal,) = [each for each in await p.goals.list() if each.summary.parent is None]
        result = await asyncio.wait_for(p.goals.resume(goal.id), 60)
        assert result.value == "It is three."
        (child,) = await p.goals.children_of(goal.id)
        assert child.status == "done"
        state = await p.goals.state(goal.id)
        assert output(state) == {"goal_id": child.id, "status": "done", "value": "Three."}
