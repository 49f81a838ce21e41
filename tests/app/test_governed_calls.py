"""A call that a model decided is judged on its way through `p.goals`, on every store; a person's call is not."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from perdure.app.goals.arguments.run_options import Manner, policy_of_run
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import NewGoal, of_command
from perdure.kernel.events import MindSpec, Termination, ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.mind import Proposal
from perdure.minds.command import CommandMind
from perdure.minds.factory import Made
from perdure.tools.policy import Rule, Rules


@dataclass
class FreeMind(CommandMind):
    """Chooses freely: one call, then the end."""

    call: ToolCall
    is_slow: bool = field(default=True)

    async def decide(self, state: GoalState, now_us: int) -> Proposal:  # noqa: ARG002 (as the port says)
        if not state.calls:
            return Proposal([self.call])
        return Proposal() if state.open_calls else Proposal(end=Termination("done"))


def use(goals: Goals, tool: str, **arguments: object) -> None:
    call = ToolCall("a.1", "a", tool, arguments, "pure", by="model:test")
    goals._runner.contexts.minds["model"] = lambda _request: Made(FreeMind(call))


@pytest.fixture
def new(tmp_path: Path) -> Callable[[], NewGoal]:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a").write_text("hello")
    return lambda: NewGoal("think", MindSpec("model", options={"model": "test"}), folder)


async def test_a_person_is_asked_about_a_call_of_a_model(goals: Goals, new: Callable[[], NewGoal]) -> None:
    use(goals, "exec", argv=["true"])
    ran = await goals.begin(new())
    assert (ran.outcome, ran.state.waiting_for) == ("waiting", "person")
    waiting = ran.state.open_calls["a.1"]
    assert waiting.awaits_approval
    assert isinstance(waiting.call, ToolCall)
    assert (waiting.call.effect, waiting.call.by) == ("once", "model:test")
    await goals.decide(ran.state.goal_id, "approve")
    ran = await goals.go_on(ran.state.goal_id)
    assert ran.state.status == "done"
    decision = ran.state.calls["a.1"].decision
    assert decision is not None
    assert (decision.decision, decision.by) == ("approve", "person")


async def test_the_rules_of_a_run_deny_and_allow(goals: Goals, new: Callable[[], NewGoal]) -> None:
    use(goals, "read_file", path="a")
    rules = Rules([Rule("read_file", "deny")])
    denied = (await goals.begin(new(), Manner(policy=rules))).state
    allowed = (await goals.begin(new(), Manner(policy=Rules([Rule("read_file", "allow")])))).state
    outcomes = [each.calls["a.1"].outcome for each in (denied, allowed)]
    assert [each.ok for each in outcomes if each is not None] == [False, True]


@pytest.mark.parametrize(
    ("tool", "arguments", "status"),
    [("read_file", {"path": "a"}, "done"), ("exec", {"argv": ["true"]}, "waiting")],
)
async def test_yes_approves_all_but_programs_also_for_a_goal_that_waits_already(
    goals: Goals, new: Callable[[], NewGoal], tool: str, arguments: dict[str, object], status: str
) -> None:
    use(goals, tool, **arguments)
    goal_id = (await goals.begin(new())).state.goal_id
    ran = await goals.go_on(goal_id, Manner(policy=policy_of_run(yes=True)))
    assert ran.state.status == status


async def test_a_command_asks_no_policy(goals: Goals, tmp_path: Path) -> None:
    new = replace(of_command("true"), workdir=tmp_path)
    ran = await goals.begin(new, Manner(policy=Rules([Rule("*", "deny")])))
    assert ran.state.status == "done"
