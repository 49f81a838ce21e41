"""A call that a model decided is judged on its way through `p.goals`, on every store; a person's call is not."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from perdure.app import Perdure
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import NewGoal, of_command, of_plan_text
from perdure.errors import Conflict, Invalid, KeyTaken
from perdure.kernel.events import MindSpec, PolicySpec, Termination, ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.mind import Proposal
from perdure.minds.command import CommandMind
from perdure.minds.factory import MindWithTools
from perdure.tools.goal_policy import read_policy


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
    goals._runner.contexts.mind_factories["model"] = lambda _request: MindWithTools(FreeMind(call))


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
    ran = await goals.resume_run(ran.state.goal_id)
    assert ran.state.status == "done"
    decision = ran.state.calls["a.1"].decision
    assert decision is not None
    assert (decision.decision, decision.by) == ("approve", "person")


def ruled(verdict: str, tool: str = "read_file") -> PolicySpec | None:
    return read_policy({"rules": [{"tool": tool, "verdict": verdict}]})


async def test_the_rules_of_a_goal_deny_and_allow(goals: Goals, new: Callable[[], NewGoal]) -> None:
    use(goals, "read_file", path="a")
    denied = (await goals.begin(replace(new(), policy=ruled("deny")))).state
    allowed = (await goals.begin(replace(new(), policy=ruled("allow")))).state
    outcomes = [each.calls["a.1"].outcome for each in (denied, allowed)]
    assert [each.ok for each in outcomes if each is not None] == [False, True]


async def test_a_resume_judges_by_the_recorded_policy(goals: Goals, new: Callable[[], NewGoal]) -> None:
    use(goals, "read_file", path="a")
    queued = await goals.enqueue(replace(new(), policy=read_policy("read-only")))
    events = await goals.events(queued.id)
    assert events[0].content()["policy"] == {"preset": "read-only"}
    ran = await goals.resume_run(queued.id)
    decision = ran.state.calls["a.1"].decision
    assert ran.state.status == "done"
    assert decision is not None
    assert (decision.decision, decision.by) == ("approve", "policy")


async def test_a_goal_without_a_policy_records_none(goals: Goals, new: Callable[[], NewGoal]) -> None:
    use(goals, "read_file", path="a")
    ran = await goals.begin(new())
    assert "policy" not in (await goals.events(ran.state.goal_id))[0].content()


@pytest.mark.parametrize("tool", ["exec", "write_file"])
async def test_neither_a_rule_nor_yes_approves_a_program_or_a_changed_file(
    goals: Goals, new: Callable[[], NewGoal], tool: str
) -> None:
    use(goals, tool, **({"argv": ["true"]} if tool == "exec" else {"path": "b", "content": "text"}))
    policy = read_policy({"rules": [{"tool": "*", "verdict": "allow"}], "yes": True})
    ran = await goals.begin(replace(new(), policy=policy), RunOptions(approves_asked=True))
    assert (ran.outcome, ran.state.waiting_for) == ("waiting", "person")


async def test_a_key_does_not_start_a_goal_with_another_policy(goals: Goals, new: Callable[[], NewGoal]) -> None:
    use(goals, "read_file", path="a")
    await goals.begin_once(replace(new(), key="one", policy=ruled("allow")))
    with pytest.raises(Conflict, match="policy has .* as rule 1"):
        await goals.begin_once(replace(new(), key="one", policy=read_policy("ask")))
    again = await goals.begin_once(replace(new(), key="one"))
    assert again.state.policy == ruled("allow"), "who gives no policy gets the goal as it is"


async def test_options_record_a_policy_or_refuse_it(goals: Goals) -> None:
    result = await goals.options(policy="read-only").run(["true"])
    assert (await goals.events(result.id))[0].content()["policy"] == {"preset": "read-only"}
    with pytest.raises(Invalid, match="needs the sandbox"):
        goals.options(policy="full")


async def test_a_new_goal_has_the_policy_of_the_settings_unless_it_is_given_one(tmp_path: Path) -> None:
    config = tmp_path / "home" / "config.toml"
    config.parent.mkdir()
    config.write_text("""[policy]
preset = "read-only"
[[policy.rules]]
tool = "exec"
verdict = "ask"
arguments = {"argv.0" = "git"}
""")
    rule = {"tool": "exec", "verdict": "ask", "arguments": {"argv.0": "git"}}
    async with Perdure.open(config.parent) as p:
        first = await p.goals.options(key="one").run(["true"])
        given = await p.goals.options(policy="ask").run(["true"])
        fork = await p.goals.fork(first.id, at=1)
        recorded = [(await p.goals.events(each))[0].content().get("policy") for each in (first.id, given.id)]
        assert recorded == [{"preset": "read-only", "rules": [rule]}, None]
        assert (await p.goals.begun(fork.id)).policy == (await p.goals.begun(first.id)).policy
    config.write_text("")
    async with Perdure.open(config.parent) as p:
        again = await p.goals.options(key="one").run(["true"])
        assert again.id == first.id, "a key is of the goal as it was started"
        assert (await p.goals.state(first.id)).policy == PolicySpec("read-only", (rule,))  # type: ignore[arg-type]


@pytest.mark.parametrize("written", ['preset = "full"', 'rules = [{tool = "a", verdict = "perhaps"}]'])
async def test_a_setting_that_is_no_policy_starts_no_goal_and_breaks_nothing_else(tmp_path: Path, written: str) -> None:
    config = tmp_path / "home" / "config.toml"
    config.parent.mkdir()
    config.write_text(f"[policy]\n{written}\n")
    async with Perdure.open(config.parent) as p:
        with pytest.raises(Invalid, match="Correct the settings policy.preset and policy.rules"):
            await p.goals.run(["true"])
        assert await p.goals.list() == []
        assert (await p.goals.options(policy="ask").run(["true"])).status == "done"


async def test_a_retry_and_a_fork_record_another_policy(goals: Goals, tmp_path: Path) -> None:
    plan = of_plan_text("goal: x\nsteps: [{id: a, exec: 'false', effect: idempotent}]", "plan")
    goal_id = (await goals.begin(replace(plan, workdir=tmp_path, policy=read_policy("read-only")))).state.goal_id
    await goals.reopen(goal_id, key="again", policy=read_policy({"yes": True}))
    assert (await goals.state(goal_id)).policy == PolicySpec(yes=True)
    again = await goals.reopen(goal_id, key="again", policy=read_policy({"yes": True}))
    assert len(again.state.reopenings) == 1
    with pytest.raises(KeyTaken):
        await goals.reopen(goal_id, key="again", policy=read_policy("ask"))
    await goals.reopen(goal_id)
    assert (await goals.state(goal_id)).policy == PolicySpec(yes=True), "it stays until another is given"
    kept, other = await goals.fork(goal_id, before="a"), await goals.fork(goal_id, before="a", policy="ask", key="f")
    assert [(await goals.state(each.id)).policy for each in (kept, other)] == [PolicySpec("read-only"), None]
    assert (await goals.fork(goal_id, before="a", policy="ask", key="f")).id == other.id
    with pytest.raises(KeyTaken, match="which has the policy .ask., and not .read-only."):
        await goals.fork(goal_id, before="a", policy="read-only", key="f")


async def test_a_fork_keeps_the_policy(goals: Goals, new: Callable[[], NewGoal]) -> None:
    use(goals, "read_file", path="a")
    ran = await goals.begin(replace(new(), policy=ruled("allow")))
    fork = await goals.fork(ran.state.goal_id, at=1)
    assert (await goals.begun(fork.id)).policy == ran.state.begun.policy


@pytest.mark.parametrize(
    ("tool", "arguments", "status"),
    [("read_file", {"path": "a"}, "done"), ("exec", {"argv": ["true"]}, "waiting")],
)
async def test_yes_approves_all_but_programs_also_for_a_goal_that_waits_already(
    goals: Goals, new: Callable[[], NewGoal], tool: str, arguments: dict[str, object], status: str
) -> None:
    use(goals, tool, **arguments)
    goal_id = (await goals.begin(new())).state.goal_id
    ran = await goals.resume_run(goal_id, RunOptions(approves_asked=True))
    assert ran.state.status == status


async def test_a_command_asks_no_policy(goals: Goals, tmp_path: Path) -> None:
    new = replace(of_command("true"), workdir=tmp_path)
    ran = await goals.begin(replace(new, policy=ruled("deny", "*")))
    assert ran.state.status == "done"
