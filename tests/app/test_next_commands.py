"""The commands that a person can run next, for every end and every wait: exact with a state, generic without."""

import shlex
from dataclasses import replace
from typing import Any, get_args

import pytest

from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.next_commands import NextCommand, next_commands
from perdure.kernel.events import (
    Ask,
    Body,
    Cancel,
    Decision,
    GoalBegun,
    Head,
    Hold,
    Limits,
    MindSpec,
    OutcomeUnknown,
    ParentCall,
    Termination,
    ToolCall,
    ToolError,
    ToolOutput,
    Wait,
    seal,
)
from perdure.kernel.fold import GoalState, WaitingFor, apply, fold
from perdure.kernel.recovery import WITHOUT_RESULT
from perdure.kernel.summary import Summary, summarise
from perdure.statuses import Status
from perdure.text.moments import iso, moment

NOW_US = 1_800_000_000_000_000
SCRIPT = MindSpec("flow", flow="f", at="__main__:f", args={"args": [], "kwargs": {}, "script": "/a b/s.py"})
FLOW = MindSpec("flow", flow="f", at="m:f")
COMMAND = MindSpec("command")


def state_of(
    *bodies: Body, mind: MindSpec = COMMAND, limits: Limits | None = None, parent: ParentCall | None = None
) -> GoalState:
    begun = GoalBegun("g", mind, workdir="/w", limits=limits or Limits(), parent=parent)
    state = fold([seal(begun, Head("g"), event_id="e", iteration=0, timestamp_us=NOW_US)])
    for body in bodies:
        apply(state, seal(body, state.head, event_id="e", iteration=1, timestamp_us=NOW_US))
    return state


def after(
    state: GoalState, *, queue: str = "cli", start_key: str | None = None, is_running: bool = False
) -> list[NextCommand]:
    row = summarise(state, queue=queue, start_key=start_key)
    return [*next_commands(row, state, is_running=is_running, now_us=NOW_US)]


def commands(state: GoalState, **given: Any) -> list[str]:
    return [each.command for each in after(state, **given)]


def call(step: str, **given: Any) -> ToolCall:
    return ToolCall(f"{step}.1", step, "step", {"digest": "d"}, given.get("effect", "once"))


def failed(step: str, code: str = "ValueError") -> ToolOutput:
    return ToolOutput(f"{step}.1", ok=False, error=ToolError(code, "no luck"))


def test_a_done_goal_needs_no_command() -> None:
    assert after(state_of(Termination("done"))) == []


def test_a_failed_goal_is_retried() -> None:
    [found] = after(state_of(call("/a#0"), failed("/a#0"), Termination("failed", steps=("/a#0",)), mind=FLOW))
    assert (found.command, "/a#0" in found.why) == ("perdure goal retry g", True)


def test_a_flow_whose_body_failed_is_run_again_over_its_recorded_steps() -> None:
    [found] = after(state_of(call("/a#0"), ToolOutput("/a#0.1", ok=True), Termination("failed", steps=()), mind=FLOW))
    assert found.why == "Run the flow again over its recorded steps, when the bug is fixed."


def test_a_retry_of_a_step_that_may_have_happened_waits_for_a_decision() -> None:
    timed_out = (call("/pay#0"), failed("/pay#0", "timeout"))
    [found] = after(state_of(*timed_out, Termination("failed", steps=("/pay#0",)), mind=FLOW))
    assert found.command == "perdure goal retry g"
    assert found.why == "Reopen the goal, which then waits for a decision about /pay#0, whose effect may exist."
    other = (call("g1.1/a#0"), failed("g1.1/a#0"))
    both = Termination("failed", steps=("g1.0/pay#0", "g1.1/a#0"))
    [found] = after(state_of(call("g1.0/pay#0"), failed("g1.0/pay#0", "timeout"), *other, both, mind=FLOW))
    assert found.why == (
        "Retry the failed step g1.1/a#0 when the cause is fixed."
        " The goal then waits for a decision about g1.0/pay#0, whose effect may exist."
    )


def test_a_retry_calls_what_the_flow_had_cancelled_again_and_does_not_call_it_failed() -> None:
    cancelled = (call("/slow#0", effect="idempotent"), failed("/slow#0", "cancelled"))
    [found] = after(state_of(*cancelled, Termination("fatal_error", steps=()), mind=FLOW))
    assert found.why == (
        "Run the flow again when the bug is fixed."
        " It calls /slow#0 again, which the flow had cancelled before it failed."
    )


def test_a_failed_flow_of_a_script_is_retried_and_then_run_by_its_script() -> None:
    assert commands(state_of(Termination("failed"), mind=SCRIPT)) == ["perdure goal retry g", "python '/a b/s.py'"]


def test_a_flow_that_ran_a_compensation_is_forked_before_the_failed_step() -> None:
    undo = (call("/undo#0"), ToolOutput("/undo#0.1", ok=True))
    end = Termination("failed", steps=("/a#0",))
    [found] = after(state_of(call("/a#0"), failed("/a#0"), *undo, end, mind=FLOW))
    assert found.command == "perdure goal fork g --before '/a#0'"
    assert "/undo#0" in found.why


@pytest.mark.parametrize(("other", "is_retried"), [("g1.1/b#0", True), ("g1.0/b#0", False), ("/b#0", False)])
def test_only_steps_of_the_failed_branch_or_around_it_prevent_a_retry(other: str, is_retried: bool) -> None:
    later = (call(other), ToolOutput(f"{other}.1", ok=True))
    end = Termination("failed", steps=("g1.0/a#0",))
    [found] = commands(state_of(call("g1.0/a#0"), failed("g1.0/a#0"), *later, end, mind=FLOW))
    assert found.startswith("perdure goal retry" if is_retried else "perdure goal fork")


def test_a_plan_whose_later_steps_ran_is_retried() -> None:
    later = (call("a"), ToolOutput("a.1", ok=True))
    end = Termination("failed", steps=("a.b",))
    found = commands(state_of(call("a.b"), failed("a.b"), *later, end, mind=MindSpec("plan")))
    assert found == ["perdure goal retry g"]


def test_a_cancelled_goal_is_forked_before_the_step_that_was_cut_off_or_after_the_last() -> None:
    end = Termination("cancelled")
    [found] = after(state_of(call("a"), failed("a", "cancelled"), end))
    assert found.command == "perdure goal fork g --before a --repeat a"
    assert found.why.endswith("The fork would repeat a, whose effect may exist. Check that first, outside Perdure.")
    assert commands(state_of(Ask("a.1", "a", "?"), end)) == ["perdure goal fork g --before a"]
    assert commands(state_of(call("a"), ToolOutput("a.1", ok=True), end)) == ["perdure goal fork g --after a"]
    assert commands(state_of(end)) == ["perdure goal fork g --at 1"]


def test_no_fork_is_offered_for_a_goal_whose_cleanup_had_effects() -> None:
    sleep = (Wait("/sleep#0.1", "/sleep#0", until="2026-01-01T00:00:00Z"), Cancel("person", None))
    cut = (*sleep, Decision("/sleep#0.1", "cancel", by="flow"))
    [found] = after(state_of(*cut, Termination("cancelled"), mind=FLOW))
    assert found.command == "perdure goal fork g --before '/sleep#0'"
    refund = (call("/refund#0"), ToolOutput("/refund#0.1", ok=True))
    assert after(state_of(*cut, *refund, Termination("cancelled"), mind=FLOW)) == []


def test_a_question_has_its_options_in_the_reason() -> None:
    [found] = after(state_of(Ask("a.1", "a", "Which?", ("yes", "no"))))
    assert found == NextCommand("perdure goal answer g ANSWER --resume", "a asks: Which? (yes, no)")


def test_several_questions_are_answered_by_their_calls() -> None:
    found = commands(state_of(Ask("a.1", "a", "?"), Ask("b b.1", "b b", "?")))
    assert found == ["perdure goal answer g a.1 ANSWER --resume", "perdure goal answer g 'b b.1' ANSWER --resume"]


def test_an_answer_does_not_resume_a_goal_that_others_run() -> None:
    state = state_of(Ask("a.1", "a", "?"))
    for given in ({"queue": "server"}, {"queue": "app.shop"}, {"is_running": True}):
        assert commands(state, **given)[0] == "perdure goal answer g ANSWER"


def test_a_script_is_run_again_after_the_answer() -> None:
    found = commands(state_of(Ask("a.1", "a", "?"), mind=SCRIPT))
    assert found == ["perdure goal answer g ANSWER", "python '/a b/s.py'"]


@pytest.mark.parametrize(
    ("given", "is_found"), [({}, False), ({"start_key": "k"}, True), ({"queue": "app.shop"}, True)]
)
def test_a_goal_that_its_script_would_start_again_names_the_call_that_resumes_it(
    given: dict[str, Any], is_found: bool
) -> None:
    for body in (Ask("a.1", "a", "?"), Termination("failed")):
        why = after(state_of(body, mind=SCRIPT), **given)[-1].why
        assert ("so running the script again starts a new goal" in why) is not is_found
        assert ("To resume this goal, call `await p.goals.resume('g')` in the script." in why) is not is_found


def test_a_child_of_a_script_is_found_by_its_parent() -> None:
    state = state_of(Ask("a.1", "a", "?"), mind=SCRIPT, parent=ParentCall("g0", "/a#0.1"))
    assert after(state)[-1].why == "Then resume the goal. Its flow is defined in this script."


def test_a_script_is_run_again_with_its_arguments() -> None:
    args = {"args": [], "kwargs": {}, "script": "/a/s.py", "argv": ["--day", "3", "a b; rm"]}
    found = commands(state_of(Ask("a.1", "a", "?"), mind=replace(SCRIPT, args=args)))
    assert found[-1] == "python /a/s.py --day 3 'a b; rm'"


def test_an_unknown_outcome_has_all_three_decisions() -> None:
    found = after(state_of(call("a"), OutcomeUnknown("a.1", "The worker died.")))
    assert [each.command.split()[-2] for each in found] == ["skip", "retry", "abort"]
    assert found[0].why.startswith("The outcome of a.1 is unknown. The worker died. Skip the call")


def test_a_step_whose_result_is_not_known_is_skipped_with_a_value() -> None:
    found = commands(state_of(call("a"), OutcomeUnknown("a.1", f"The worker died; {WITHOUT_RESULT}.")))
    assert found[0] == "perdure goal decide g a.1 skip --value JSON --resume"
    assert found[1] == "perdure goal decide g a.1 retry --resume"


def test_a_step_that_returns_something_is_skipped_with_a_value_of_its_type() -> None:
    returning = ToolCall("a.1", "a", "step", {}, "once", returns="Receipt")
    skip, retry, _ = after(state_of(returning, OutcomeUnknown("a.1", "The worker died.")))
    assert skip.command == "perdure goal decide g a.1 skip --value JSON --resume"
    assert skip.why.endswith("the call then counts as done. Replace JSON by its result, which is of type Receipt.")
    assert retry.command == "perdure goal decide g a.1 retry --resume"


def test_an_approval_is_given_or_denied() -> None:
    found = commands(state_of(call("a"), mind=MindSpec("model")))
    assert found == ["perdure goal approve g a.1 --resume", "perdure goal deny g a.1 --resume"]


def test_a_signal_is_sent_by_its_name() -> None:
    def sent(name: str) -> list[str]:
        return commands(state_of(Wait("a.1", "a", signal=name)))

    assert sent("paid in") == ["perdure goal signal g 'paid in' JSON --resume"]
    assert sent("-x") == ["perdure goal signal g --resume -- -x JSON"]


LATE = iso(NOW_US - 60_000_000)


@pytest.mark.parametrize(
    "late",
    [
        (Ask("a.1", "a", "?", until=LATE),),
        (Wait("a.1", "a", signal="paid", until=LATE),),
        (Wait("/timeout#0.1", "/timeout#0", until=LATE), Ask("/ask#0.1", "/ask#0", "?")),
        (Wait("/timeout#0.1", "/timeout#0", until=LATE), Wait("/signal#0.1", "/signal#0", signal="paid")),
    ],
    ids=["question", "signal", "question in a block", "signal in a block"],
)
def test_what_has_timed_out_is_resumed_and_not_settled(late: tuple[Ask | Wait, ...]) -> None:
    state = state_of(*late)
    [found] = after(state)
    assert found.command == "perdure goal resume g"
    assert found.why == f"{late[0].call_id} timed out at {moment(NOW_US - 60_000_000)}. Resume it."
    assert commands(state, queue="server") == ["perdure goal watch g"]
    assert commands(state_of(*late, mind=SCRIPT)) == ["python '/a b/s.py'"]


def test_a_question_beside_one_that_has_timed_out_is_answered() -> None:
    found = commands(state_of(Ask("a.1", "a", "?", until=LATE), Ask("b.1", "b", "?")))
    assert found == ["perdure goal answer g b.1 ANSWER --resume", "perdure goal resume g"]


@pytest.mark.parametrize(
    ("from_now_s", "command", "words"),
    [
        (60, "perdure goal watch g", "Follow it: the application 'shop' (or `perdure goal resume --due`) resumes it."),
        (
            -60,
            "perdure goal resume g",
            "is overdue. Resume it here, or start the application 'shop', which resumes it.",
        ),
    ],
    ids=["asleep", "overdue"],
)
def test_a_sleeping_goal_of_an_application_names_what_resumes_it(from_now_s: int, command: str, words: str) -> None:
    state = state_of(Wait("a.1", "a", until=iso(NOW_US + from_now_s * 1_000_000)))
    [found] = after(state, queue="app.shop")
    assert (found.command, found.why.endswith(words)) == (command, True)


@pytest.mark.parametrize(("from_now_s", "words"), [(60, "It sleeps until"), (-60, "is overdue")])
def test_a_timer_says_until_when_and_whether_it_is_overdue(from_now_s: int, words: str) -> None:
    state = state_of(Wait("a.1", "a", until=iso(NOW_US + from_now_s * 1_000_000)))
    [found] = after(state)
    assert (found.command, words in found.why) == ("perdure goal resume g", True)
    assert commands(state, queue="server") == ["perdure goal watch g"]


@pytest.mark.parametrize(
    ("limits", "words"),
    [(Limits(iterations=1), ["--max-iterations", "2"]), (Limits(seconds=2.0), ["--timeout", "6s"])],
)
def test_a_limit_is_raised_above_what_was_used(limits: Limits, words: list[str]) -> None:
    state = state_of(call("a"), ToolOutput("a.1", ok=True, duration_ms=3000), limits=limits)
    assert [shlex.split(found)[-2:] for found in commands(state)] == [words]


def test_a_limit_of_a_goal_of_a_script_is_raised_by_a_call_in_the_script() -> None:
    state = state_of(call("a"), ToolOutput("a.1", ok=True), limits=Limits(iterations=1), mind=SCRIPT)
    [found] = after(state)
    assert found.command == "python '/a b/s.py'"
    assert "`await p.goals.resume('g', limits=Limits(iterations=2))` in the script" in found.why


@pytest.mark.parametrize(
    ("steps", "where"), [(("a",), "the last in a."), ((), "the last while no step was running.")], ids=["step", "none"]
)
def test_a_goal_on_hold_says_why(steps: tuple[str, ...], where: str) -> None:
    [found] = after(state_of(call("a"), Hold("crash_loop", 3, steps)))
    assert found.command == "perdure goal resume g"
    assert f"3 workers in a row died, {where}" in found.why


def test_an_interrupted_goal_is_resumed_unless_the_server_does_it() -> None:
    state = state_of(call("a"))
    assert commands(state) == commands(state, queue="app.shop") == ["perdure goal resume g"]
    assert commands(state, queue="server") == []
    assert commands(state_of(call("a"), mind=SCRIPT)) == ["python '/a b/s.py'"]


def test_a_program_that_is_not_known_is_described() -> None:
    [found] = after(state_of(call("a"), mind=replace(SCRIPT, args=None)))
    assert found.command == "perdure goal show g"
    assert "run the program again that defined its flow" in found.why


def test_a_running_goal_is_watched() -> None:
    assert commands(state_of(call("a")), is_running=True) == ["perdure goal watch g"]


def test_a_state_of_another_moment_is_not_used() -> None:
    state = state_of(Ask("a.1", "a", "?"))
    row = summarise(state)
    apply(state, seal(Ask("b.1", "b", "?"), state.head, event_id="e", iteration=1, timestamp_us=NOW_US))
    assert [each.command for each in next_commands(row, state)] == ["perdure goal show g"]


@pytest.mark.parametrize("waiting_for", get_args(WaitingFor))
def test_a_list_has_a_command_for_every_wait(waiting_for: WaitingFor) -> None:
    row = Summary("g", "g", "flow", "waiting", NOW_US, NOW_US, 3, waiting_for=waiting_for, due_us=NOW_US)
    [found] = next_commands(row, now_us=NOW_US)
    expected = {*(f"perdure goal {verb} g" for verb in ("show", "resume", "watch")), "perdure chat --resume g"}
    assert found.command in expected


@pytest.mark.parametrize("status", get_args(Status))
def test_the_json_form_of_a_goal_has_its_next_commands(status: Status) -> None:
    view = GoalView(Summary("g", "g", "command", status, NOW_US, NOW_US, 3))
    assert view.wire()["next"] == [{"command": each.command, "why": each.why} for each in view.next]
    assert len(view.next) == (status != "done")
