"""What a mind wants is looked at before it is recorded: what makes no sense has an outcome, and never runs."""

import pytest

from perdure.kernel.events import Ask, Body, Decision, Event, Termination, ToolCall, ToolOutput, decode
from perdure.kernel.mind import Proposal
from tests.kernel.world import FixedPolicy, World


def call(step: str = "act", tool: str = "exec", **arguments: object) -> ToolCall:
    return ToolCall(f"{step}.1", step, tool, arguments, "once")


GOOD = call(argv=["true"])
END = Proposal(end=Termination("done"))


async def bodies(world: World) -> list[Body]:
    return [decode(event) for event in await world.store.load("goal-a")]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (call(tool="fly"), "There is no tool 'fly'"),
        (call(wrong=1), "argv was expected"),
        (call(argv=[float("nan")]), "cannot be stored as JSON"),
        (call(tool="ask"), "question"),
        (call(tool="ask", question="  "), "question"),
        (call(tool="ask", question="Why?", options=[]), "options"),
        (call(tool="ask", question="Why?", option="x"), "'option'"),
        (call(tool="done", result=1), "'result'"),
    ],
)
async def test_a_call_that_is_invalid_is_recorded_with_its_error_and_never_runs(
    world: World, bad: ToolCall, said: str
) -> None:
    ran = await world.script(Proposal([bad]), END)
    outcome = ran.state.calls["act.1"].outcome
    assert outcome is not None
    assert outcome.error is not None
    assert outcome.error.code == "invalid"
    assert said in outcome.error.message
    assert not world.tool.effects
    assert ran.state.status == "done"


async def test_ask_is_a_question_to_a_person(world: World) -> None:
    ran = await world.script(Proposal([call(tool="ask", question="Now?", options=["yes", "no"])]))
    assert (ran.outcome, ran.state.waiting_for) == ("waiting", "person")
    assert ran.state.open_calls["act.1"].call == Ask("act.1", "act", "Now?", ("yes", "no"))


async def test_done_ends_the_goal_with_a_value(world: World) -> None:
    ran = await world.script(Proposal([call(tool="done", value=[1])]))
    assert ran.state.termination == Termination("done", value=[1])


async def test_done_beside_something_else_is_refused(world: World) -> None:
    ran = await world.script(Proposal([GOOD, call("end", "done")]), END)
    outcome = ran.state.calls["end.1"].outcome
    assert outcome is not None
    assert not outcome.ok
    assert world.tool.effects == {"act": 1}


async def test_what_the_policy_allows_is_recorded_as_approved_by_it(world: World) -> None:
    await world.script(Proposal([GOOD]), END)
    assert Decision("act.1", "approve", by="policy") in await bodies(world)
    assert world.tool.effects == {"act": 1}


async def test_what_the_policy_denies_has_an_outcome_and_never_runs(world: World) -> None:
    world.policy = FixedPolicy("deny")
    ran = await world.script(Proposal([GOOD]), END)
    outcome = ran.state.calls["act.1"].outcome
    assert outcome is not None
    assert outcome.error is not None
    assert outcome.error.code == "denied"
    assert not world.tool.effects


async def test_a_plan_asks_no_policy(world: World) -> None:
    world.policy = FixedPolicy("deny")
    ran = await world.start("goal: a\nsteps: [{id: act, exec: [act]}]")
    assert ran.state.status == "done"


@pytest.mark.parametrize(("effect", "status"), [("once", "waiting"), ("idempotent", "failed")])
async def test_an_output_that_cannot_be_kept_is_an_unknown_outcome_of_once_and_else_a_failure(
    world: World, effect: str, status: str
) -> None:
    class Odd(type(world.tool)):  # type: ignore[misc]
        async def run(self, context: object) -> ToolOutput:
            await super().run(context)
            return ToolOutput("act.1", ok=True, output=float("inf"))

    world.tool = Odd()
    ran = await world.start(f"goal: a\nsteps: [{{id: act, exec: [act], effect: {effect}}}]")
    assert ran.state.status == status
    assert (ran.state.calls["act.1"].unknown is not None) is (effect == "once")


async def test_events_are_reported_when_they_are_durable(world: World) -> None:
    told: list[Event] = []
    world.watch = lambda loop: loop.journal.listen(lambda events, _state: told.extend(events))
    await world.start("goal: a\nsteps: [{id: act, exec: [act]}]")
    assert told == await world.store.load("goal-a")


@pytest.mark.parametrize(
    ("decisions", "reason"),
    [
        ([Proposal([call(f"s{i}", argv=["same"])]) for i in range(9)], None),
        (
            [Proposal([ToolCall(f"x.{i}", "x", "exec", {"argv": ["same"]}, "once", i)]) for i in range(1, 9)],
            "no_progress",
        ),
        ([Proposal([ToolCall(f"x.{i}", "x", "fly", {"i": i}, "once", i)]) for i in range(1, 9)], "repeated_failure"),
    ],
    ids=["same call, other results", "same call, same result", "same error"],
)
async def test_a_model_that_goes_round_in_circles_is_stopped_the_third_time(
    world: World, decisions: list[Proposal], reason: str | None
) -> None:
    ran = await world.script(*decisions, END)
    assert ran.state.termination is not None
    assert ran.state.termination.reason == (reason or "done")
    if reason:
        assert ran.state.used.iterations == 3


async def test_a_plan_is_never_stopped_for_repeating_itself(world: World) -> None:
    world.tool.fails["act"] = 5
    ran = await world.start("goal: a\nsteps: [{id: act, exec: [act], retry: {attempts: 6, initial: 1s}}]")
    assert ran.state.status == "done"
