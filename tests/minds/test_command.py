"""The command mind: one call, then the end."""

import pytest

from perdure import Invalid
from perdure.kernel.events import GoalBegun, MindSpec, Termination, ToolCall
from perdure.minds.command import CommandMind
from perdure.minds.factory import MindRequest, MindWithTools, make_mind
from perdure.minds.plan.mind import PlanMind
from tests.minds.history import History


async def test_the_text_is_split_into_one_call() -> None:
    decided = await History(CommandMind("echo 'a b' c")).step()
    assert decided.actions == [ToolCall("command.1", "command", "exec", {"argv": ["echo", "a b", "c"]}, "once")]


async def test_a_shell_gets_the_text_unchanged() -> None:
    decided = await History(CommandMind("echo 'a | wc", shell=True)).step()
    assert decided.actions[0] == ToolCall(
        "command.1", "command", "exec", {"argv": ["echo 'a | wc"], "shell": True}, "once"
    )


async def test_nothing_is_wanted_while_it_runs() -> None:
    history = History(CommandMind("true"))
    await history.step()
    decided = await history.step()
    assert (list(decided.actions), decided.end, decided.wake_us) == ([], None, None)


async def test_success_ends_the_goal_with_the_output() -> None:
    history = History(CommandMind("true"))
    await history.step()
    history.succeed("command.1", "hi")
    value = {"exit_code": 0, "stdout": "hi", "stderr": ""}
    assert (await history.step()).end == Termination("done", value=value)


async def test_failure_ends_the_goal_with_the_reason_and_the_output() -> None:
    history = History(CommandMind("false"))
    await history.step()
    history.fail("command.1")
    end = (await history.step()).end
    assert end is not None
    assert (end.reason, end.detail) == ("failed", "The command failed: it exited with 3")
    assert end.value["exit_code"] == 3


async def test_a_retry_of_an_unknown_outcome_is_a_second_call() -> None:
    history = History(CommandMind("true"))
    await history.step()
    history.lose("command.1")
    assert await history.begun() == []
    history.decide("command.1", "retry")
    assert await history.begun() == ["command.2"]


async def test_a_skipped_command_is_done_with_the_given_value() -> None:
    history = History(CommandMind("true"))
    await history.step()
    history.lose("command.1")
    history.decide("command.1", "skip", "seen")
    assert (await history.step()).end == Termination("done", value="seen")


async def test_an_aborted_command_fails() -> None:
    history = History(CommandMind("true"))
    await history.step()
    history.decide("command.1", "abort")
    end = (await history.step()).end
    assert end is not None
    assert end.reason == "failed"
    assert "by ann" in str(end.detail)


@pytest.mark.parametrize("text", ["", "  ", "echo 'a", "''", "a\0b"])
def test_a_text_that_is_no_command_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        CommandMind(text)


def test_a_shell_needs_a_text_too() -> None:
    with pytest.raises(Invalid):
        CommandMind(" ", shell=True)


def test_a_command_sees_nothing_of_earlier_outcomes() -> None:
    history = History(CommandMind("true"))
    call = ToolCall("command.1", "command", "exec", {}, "once")
    assert history.mind.environment(history.state, call) == {}


def request(spec: MindSpec, text: str = "true") -> MindRequest:
    return MindRequest(GoalBegun(text, spec))


def test_each_kind_of_goal_gets_its_mind() -> None:
    assert isinstance(make_mind(request(MindSpec("command"))).mind, CommandMind)
    plan = "goal: g\nsteps: [{id: a, exec: [x]}]"
    assert isinstance(make_mind(request(MindSpec("plan", plan=plan))).mind, PlanMind)


async def test_the_shell_of_the_goal_reaches_the_command() -> None:
    decided = await History(make_mind(request(MindSpec("command", shell=True), "a | b")).mind).step()
    assert isinstance(decided.actions[0], ToolCall)
    assert decided.actions[0].arguments == {"argv": ["a | b"], "shell": True}


@pytest.mark.parametrize("spec", [MindSpec("plan"), MindSpec("flow"), MindSpec("model")])
def test_a_goal_that_no_mind_fits_is_refused(spec: MindSpec) -> None:
    with pytest.raises(Invalid):
        make_mind(request(spec))


def test_a_home_can_know_more_kinds_of_minds() -> None:
    made = MindWithTools(CommandMind("true"))
    assert make_mind(request(MindSpec("model")), {"model": lambda _request: made}) is made
