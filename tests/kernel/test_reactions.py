"""What a flow has begun because of a failure forbids its retry; what ran beside it does not."""

from dataclasses import replace

import pytest

from perdure.kernel.calls.cancellation import CANCELLED
from perdure.kernel.events import Body, GoalBegun, Head, MindSpec, Termination, ToolCall, ToolError, ToolOutput, seal
from perdure.kernel.fold import GoalState, apply, fold
from perdure.kernel.history.reopening import NotRetried, plan_retry

FAILED = ToolError("ValueError", "no luck")


def history(*bodies: tuple[int, Body]) -> GoalState:
    """Return the state of a flow whose events have happened at some milliseconds."""
    begun = GoalBegun("g", MindSpec("flow", flow="f"))
    state = fold([seal(begun, Head("g"), event_id="e", iteration=0, timestamp_us=0)])
    for at_ms, body in bodies:
        apply(state, seal(body, state.head, event_id="e", iteration=0, timestamp_us=at_ms * 1_000))
    return state


def with_a_pure_step(*, began_ms: int, ended_ms: int) -> GoalState:
    """Return a flow whose step fails after 50 ms, and that has a pure step beside it or because of that."""
    outcome = ToolOutput("/look#0.1", step="/look#0", effect="pure", duration_ms=ended_ms - began_ms)
    return history(
        (0, ToolCall("/send#0.1", "/send#0", "step", {}, "idempotent")),
        (50, ToolOutput("/send#0.1", ok=False, error=FAILED)),
        (ended_ms, outcome),
        (90, Termination("failed", "no luck", error=FAILED, steps=("/send#0",))),
    )


def test_a_pure_step_that_ran_when_another_failed_does_not_forbid_the_retry() -> None:
    planned = plan_retry(with_a_pure_step(began_ms=20, ended_ms=51), by="person")
    assert planned.again == ("/send#0.1",)


@pytest.mark.parametrize("began_ms", [50, 60])
def test_a_pure_step_that_was_begun_after_a_failure_forbids_the_retry(began_ms: int) -> None:
    with pytest.raises(NotRetried, match="the flow began /look#0"):
        plan_retry(with_a_pure_step(began_ms=began_ms, ended_ms=80), by="person")


def test_a_later_attempt_of_a_step_that_was_begun_before_does_not_forbid_the_retry() -> None:
    fetch = ToolCall("/fetch#0.1", "/fetch#0", "step", {}, "idempotent")
    state = history(
        (0, ToolCall("/send#0.1", "/send#0", "step", {}, "idempotent")),
        (0, fetch),
        (50, ToolOutput("/send#0.1", ok=False, error=FAILED)),
        (50, ToolOutput("/fetch#0.1", ok=False, error=FAILED)),
        (51, replace(fetch, call_id="/fetch#0.2", attempt=2)),
        (60, ToolOutput("/fetch#0.2", ok=False, error=ToolError(CANCELLED, "The flow cancelled it."))),
        (90, Termination("failed", "no luck", error=FAILED, steps=("/send#0",))),
    )
    assert plan_retry(state, by="person").again == ("/send#0.1", "/fetch#0.2")
