"""The plan mind: what starts when, what is skipped, and how a goal ends."""

import time

import pytest

from perdure import Invalid
from perdure.kernel.events import Ask, Termination, ToolCall, ToolError, ToolOutput, Wait
from perdure.kernel.mind import Proposal
from perdure.minds.plan.mind import PlanMind
from perdure.minds.plan.plan import Exec, Plan, PlanStep
from perdure.minds.plan.plan_file import parse_plan
from perdure.minds.plan.step_env import ALL_OUT_BYTES, OUT_BYTES
from perdure.text.moments import iso
from tests.minds.history import SECOND_US, START_US, History


def goal(*steps: str, jobs: int = 4) -> History:
    lines = "".join(f"\n  - {{{step}}}" for step in steps)
    return History(PlanMind(parse_plan(f"goal: g\nsteps:{lines}", "p.yaml"), jobs))


async def ended(history: History) -> Termination:
    end = (await history.step()).end
    assert end is not None
    return end


def statuses(end: Termination) -> dict[str, str]:
    return {name: each["status"] for name, each in end.value.items()}


async def test_steps_that_need_nothing_start_together() -> None:
    assert await goal("id: a, exec: x", "id: b, exec: x").begun() == ["a.1", "b.1"]


async def test_a_step_starts_when_all_its_needs_are_done() -> None:
    history = goal("id: c, exec: x, needs: [a, b]", "id: a, exec: x", "id: b, exec: x")
    assert await history.begun() == ["a.1", "b.1"]
    history.succeed("a.1")
    assert await history.begun() == []
    history.succeed("b.1")
    assert await history.begun() == ["c.1"]


async def test_no_more_tools_run_at_once_than_jobs_allow() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x", "id: c, exec: x", jobs=2)
    assert await history.begun() == ["a.1", "b.1"]
    assert await history.begun() == []
    history.succeed("b.1")
    assert await history.begun() == ["c.1"]


async def test_questions_and_pauses_take_no_slot() -> None:
    history = goal("id: a, ask: {question: q}", "id: b, wait: 1s", "id: c, exec: x", jobs=1)
    assert await history.begun() == ["a.1", "b.1", "c.1"]


async def test_an_unknown_outcome_takes_no_slot() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x", jobs=1)
    await history.begun()
    history.lose("a.1")
    assert await history.begun() == ["b.1"]


def test_no_job_at_all_is_refused() -> None:
    with pytest.raises(Invalid):
        goal("id: a, exec: x", jobs=0)


async def test_the_call_of_a_program_carries_all_that_the_plan_says() -> None:
    decided = await goal(
        "id: a, exec: 'x | y', shell: true, check: c, timeout: 1m, env: {A: 1}, cwd: d, effect: pure"
    ).step()
    arguments = {"argv": ["x | y"], "shell": True, "timeout_s": 60, "env": {"A": "1"}, "cwd": "d"}
    assert decided.actions == [ToolCall("a.1", "a", "exec", {**arguments, "check": ["sh", "-c", "c"]}, "pure")]


async def test_the_call_of_a_plain_program_carries_only_its_words() -> None:
    assert (await goal("id: a, exec: x y").step()).actions == [
        ToolCall("a.1", "a", "exec", {"argv": ["x", "y"]}, "once")
    ]


async def test_a_tool_is_called_with_its_arguments() -> None:
    decided = await goal("id: a, tool: read, with: {path: p, n: 3}, effect: idempotent").step()
    assert decided.actions == [ToolCall("a.1", "a", "read", {"path": "p", "n": 3}, "idempotent")]


async def test_a_question_is_done_with_its_answer() -> None:
    history = goal("id: a, ask: {question: q, options: [yes, no]}")
    assert (await history.step()).actions == [Ask("a.1", "a", "q", ("yes", "no"))]
    history.decide("a.1", "answer", "yes")
    assert await ended(history) == Termination("done", value={"a": {"status": "done"}})


async def test_a_pause_ends_when_its_time_has_passed() -> None:
    history = goal("id: a, wait: 1m")
    assert (await history.step()).actions == [Wait("a.1", "a", until=iso(START_US + 60 * SECOND_US))]
    history.decide("a.1", "elapsed")
    assert (await ended(history)).reason == "done"


async def test_a_pause_may_last_until_a_moment() -> None:
    decided = await goal("id: a, wait: 2030-01-01T01:00:00+01:00").step()
    assert decided.actions == [Wait("a.1", "a", until="2030-01-01T00:00:00.000000Z")]


async def test_a_finished_plan_reports_how_each_step_ended() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x, needs: [a], if: {step: a, is: failed}")
    await history.step()
    history.succeed("a.1")
    value = {"a": {"status": "done", "exit_code": 0}, "b": {"status": "skipped"}}
    assert await ended(history) == Termination("done", value=value)


@pytest.mark.parametrize(("given", "begun"), [("yes", ["b.1"]), ("no", [])])
async def test_a_step_may_look_at_the_answer_that_was_given(given: str, begun: list[str]) -> None:
    history = goal("id: a, ask: {question: q}", "id: b, exec: x, needs: [a], if: {step: a, answer: yes}")
    await history.step()
    history.decide("a.1", "answer", given)
    assert await history.begun() == begun


async def test_a_failed_step_ends_the_goal_and_is_named() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x, needs: [a]")
    await history.step()
    history.fail("a.1")
    end = await ended(history)
    assert (end.reason, end.detail) == ("failed", "Step a failed: it exited with 3")
    assert end.value == {"a": {"status": "failed", "exit_code": 3}, "b": {"status": "skipped"}}


async def test_the_step_that_failed_first_is_named() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x")
    await history.step()
    history.fail("b.1")
    history.now_us += 1
    history.fail("a.1")
    assert str((await ended(history)).detail).startswith("Step b ")


async def test_a_failed_step_lets_running_ones_finish_and_starts_no_others() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x", "id: c, exec: x", jobs=2)
    await history.step()
    history.fail("a.1")
    assert await history.step() == Proposal([])
    history.succeed("b.1")
    assert statuses(await ended(history)) == {"a": "failed", "b": "done", "c": "skipped"}


async def test_a_step_that_asks_for_a_failure_runs_after_it_and_the_goal_still_fails() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x, needs: [a], if: {step: a, is: failed}")
    await history.step()
    history.fail("a.1")
    assert await history.begun() == ["b.1"]
    history.succeed("b.1")
    assert (await ended(history)).reason == "failed"


async def test_what_only_follows_a_clean_up_does_not_start() -> None:
    history = goal(
        "id: a, exec: x", "id: b, exec: x, needs: [a], if: {step: a, is: failed}", "id: c, exec: x, needs: [b]"
    )
    await history.step()
    history.fail("a.1")
    await history.step()
    history.succeed("b.1")
    assert statuses(await ended(history)) == {"a": "failed", "b": "done", "c": "skipped"}


async def test_a_condition_excuses_only_the_need_that_it_names() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x", "id: c, exec: x, needs: [a, b], if: {step: a, is: failed}")
    await history.step()
    history.fail("a.1")
    history.fail("b.1")
    assert statuses(await ended(history))["c"] == "skipped"


async def test_a_skipped_need_skips_what_needs_it() -> None:
    history = goal(
        "id: a, exec: x", "id: b, exec: x, needs: [a], if: {step: a, is: failed}", "id: c, exec: x, needs: [b]"
    )
    await history.step()
    history.succeed("a.1")
    assert statuses(await ended(history)) == {"a": "done", "b": "skipped", "c": "skipped"}


async def test_a_step_may_ask_for_a_skipped_need() -> None:
    history = goal(
        "id: a, exec: x",
        "id: b, exec: x, needs: [a], if: {step: a, is: failed}",
        "id: c, exec: x, needs: [b], if: {step: b, is: skipped}",
    )
    await history.step()
    history.succeed("a.1")
    assert await history.begun() == ["c.1"]


async def test_a_step_that_asks_for_a_skipped_one_does_not_start_when_a_failure_skipped_it() -> None:
    history = goal(
        "id: a, exec: x",
        "id: b, exec: x, needs: [a]",
        "id: otherwise, exec: x, needs: [b], if: {step: b, is: skipped}",
    )
    await history.step()
    history.fail("a.1")
    assert statuses(await ended(history)) == {"a": "failed", "b": "skipped", "otherwise": "skipped"}


async def test_a_step_that_asks_for_a_skipped_one_does_not_start_in_a_goal_that_fails_elsewhere() -> None:
    history = goal(
        "id: a, exec: x",
        "id: b, exec: x, needs: [a], if: {step: a, is: failed}",
        "id: otherwise, exec: x, needs: [b], if: {step: b, is: skipped}",
        "id: elsewhere, exec: x",
        jobs=2,
    )
    await history.step()
    history.fail("elsewhere.1")
    history.succeed("a.1")
    assert statuses(await ended(history))["otherwise"] == "skipped"


async def test_a_question_that_no_step_needs_does_not_keep_a_failed_goal_from_ending() -> None:
    history = goal("id: a, exec: x", "id: b, ask: {question: q}", "id: c, wait: 1d")
    await history.step()
    history.fail("a.1")
    assert statuses(await ended(history)) == {"a": "failed", "b": "open", "c": "open"}


async def test_a_failed_goal_waits_for_a_question_that_a_clean_up_needs() -> None:
    history = goal(
        "id: a, exec: x", "id: b, ask: {question: q}", "id: c, exec: x, needs: [a, b], if: {step: a, is: failed}"
    )
    await history.step()
    history.fail("a.1")
    assert await history.step() == Proposal([])
    history.decide("b.1", "answer", "yes")
    assert await history.begun() == ["c.1"]


async def test_a_failed_goal_waits_for_an_unknown_outcome() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x")
    await history.step()
    history.lose("b.1")
    history.fail("a.1")
    assert await history.step() == Proposal([])


async def test_a_failed_step_is_tried_again_after_its_pause() -> None:
    history = goal("id: a, exec: x, retry: {attempts: 2, initial: 10s}")
    await history.step()
    history.fail("a.1")
    assert await history.step() == Proposal([], wake_us=START_US + 10 * SECOND_US)
    history.now_us += 10 * SECOND_US
    decided = await history.step()
    assert decided.actions == [ToolCall("a.2", "a", "exec", {"argv": ["x"]}, "once", attempt=2)]


async def test_a_step_fails_permanently_after_its_last_try() -> None:
    history = goal("id: a, exec: x, retry: {attempts: 2}")
    await history.step()
    history.fail("a.1")
    assert await history.begun() == ["a.2"]
    history.fail("a.2")
    assert (await ended(history)).reason == "failed"


async def test_a_step_that_was_begun_keeps_its_retries_when_another_fails() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x, retry: {attempts: 2}")
    await history.step()
    history.fail("a.1")
    history.fail("b.1")
    assert await history.begun() == ["b.2"]


async def test_a_denied_call_is_not_tried_again() -> None:
    history = goal("id: a, exec: x, retry: {attempts: 4}")
    await history.step()
    history.add(ToolOutput("a.1", ok=False, error=ToolError("denied", "not allowed")))
    assert (await ended(history)).detail == "Step a failed: not allowed"


async def test_an_approved_call_is_settled_by_its_outcome() -> None:
    history = goal("id: a, exec: x")
    await history.step()
    history.decide("a.1", "approve")
    assert await history.step() == Proposal([])
    history.succeed("a.1")
    assert (await ended(history)).reason == "done"


async def test_an_unknown_outcome_is_tried_again_only_by_decision() -> None:
    history = goal("id: a, exec: x")
    await history.step()
    history.lose("a.1")
    assert await history.begun() == []
    history.decide("a.1", "retry")
    assert await history.begun() == ["a.2"]


async def test_a_skipped_outcome_counts_as_done_with_its_value() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x, needs: [a]")
    await history.step()
    history.lose("a.1")
    history.decide("a.1", "skip", {"stdout": "by hand"})
    decided = await history.step()
    assert isinstance(decided.actions[0], ToolCall)
    assert history.mind.environment(history.state, decided.actions[0]) == {"PERDURE_OUT_A": "by hand"}


async def test_an_abort_ends_the_goal_and_starts_no_clean_up() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x, needs: [a], if: {step: a, is: failed}", "id: c, wait: 1d")
    await history.step()
    history.lose("a.1")
    history.decide("a.1", "abort")
    end = await ended(history)
    assert (end.reason, end.detail) == ("failed", "Step a failed: aborted by ann")


async def test_an_abort_lets_running_tools_finish() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x, retry: {attempts: 4}")
    await history.step()
    history.lose("a.1")
    history.decide("a.1", "abort")
    assert await history.step() == Proposal()
    history.fail("b.1")
    assert str((await ended(history)).detail).startswith("Step a ")


async def environment(history: History, step: str) -> dict[str, str]:
    await history.step()
    call = history.state.calls[f"{step}.1"].call
    assert isinstance(call, ToolCall)
    return {**history.mind.environment(history.state, call)}


async def test_a_step_sees_the_outputs_of_all_that_it_needs_and_of_nothing_else() -> None:
    history = goal(
        "id: a-b, exec: x", "id: other, exec: x", "id: c, exec: x, needs: [a-b]", "id: d, exec: x, needs: [c]"
    )
    await history.step()
    history.succeed("a-b.1", "one\n")
    history.succeed("other.1", "two")
    await history.step()
    history.succeed("c.1", "three")
    assert await environment(history, "d") == {"PERDURE_OUT_A_B": "one\n", "PERDURE_OUT_C": "three"}


async def test_a_clean_up_sees_what_the_failed_step_said() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x, needs: [a], if: {step: a, is: failed}")
    await history.step()
    history.fail("a.1")
    assert await environment(history, "b") == {"PERDURE_OUT_A": "bad"}


@pytest.mark.parametrize(
    ("answer", "expected"), [("yes", "yes"), (None, ""), ({"n": 1}, '{"n":1}'), (True, "true"), ("a\0b", "ab")]
)
async def test_an_answer_is_seen_as_text(answer: object, expected: str) -> None:
    history = goal("id: a, ask: {question: q}", "id: b, exec: x, needs: [a]")
    await history.step()
    history.decide("a.1", "answer", answer)
    assert await environment(history, "b") == {"PERDURE_OUT_A": expected}


async def test_a_long_output_is_cut_between_two_characters() -> None:
    history = goal("id: a, exec: x", "id: b, exec: x, needs: [a]")
    await history.step()
    history.succeed("a.1", "x" + "é" * OUT_BYTES)
    seen = (await environment(history, "b"))["PERDURE_OUT_A"]
    assert seen == "x" + "é" * (OUT_BYTES // 2 - 1)


async def outputs_of_many(count: int, size: int) -> dict[str, str]:
    """What a step sees that needs one that needs so many others, each of which wrote so much."""
    steps = [f"id: s{number}, exec: x" for number in range(count)]
    names = ", ".join(f"s{number}" for number in range(count))
    history = goal(*steps, f"id: near, exec: x, needs: [{names}]", "id: last, exec: x, needs: [s0, near]", jobs=count)
    await history.step()
    for number in range(count):
        history.succeed(f"s{number}.1", "x" * size)
    await history.step()
    history.succeed("near.1", "y" * size)
    return await environment(history, "last")


async def test_outputs_that_are_too_much_together_are_left_out_whole_and_named_the_nearest_kept() -> None:
    seen = await outputs_of_many(40, OUT_BYTES)
    left_out = seen.pop("PERDURE_LEFT_OUT").split()
    assert {"PERDURE_OUT_NEAR", "PERDURE_OUT_S0"} <= {*seen}
    assert {len(text) for text in seen.values()} == {OUT_BYTES}
    assert sorted([*seen, *left_out]) == sorted(["PERDURE_OUT_NEAR", *(f"PERDURE_OUT_S{n}" for n in range(40))])
    assert ALL_OUT_BYTES - 2 * OUT_BYTES < sum(map(len, seen.values())) <= ALL_OUT_BYTES


async def test_outputs_that_fit_together_are_all_seen() -> None:
    seen = await outputs_of_many(40, 1000)
    assert len(seen) == 41
    assert "PERDURE_LEFT_OUT" not in seen


async def test_a_plan_of_many_steps_is_decided_in_little_time() -> None:
    count = 2000
    steps = tuple(PlanStep(f"s{number}", Exec(("x",))) for number in range(count))
    history = History(PlanMind(Plan("g", steps)))
    spent_s = 0.0
    for _ in range(count):
        began_s = time.process_time()
        decided = await history.mind.decide(history.state, history.now_us)
        spent_s += time.process_time() - began_s
        history.add(*decided.actions)
        history.succeed(next(iter(history.state.open_calls)))
    assert (await ended(history)).reason == "done"
    assert spent_s < 2.5
