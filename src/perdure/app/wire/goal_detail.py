"""The detailed JSON form of a goal, which `GET /goals/{id}`, `run`, `goal show` and `goal watch` share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from perdure.app.wire.calls import call_wire, options_of
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.model_steps import model_steps
from perdure.errors import Damaged
from perdure.kernel.events import Ask, LimitName, PolicySpec, RuleSpec
from perdure.kernel.fold import GoalState
from perdure.kernel.ports import InboxRow
from perdure.text.moments import iso

if TYPE_CHECKING:
    from perdure.app.wire.resources.goals import (
        Amount,
        Child,
        GoalDetail,
        GoalLimits,
        Pending,
        Policy,
        PolicyRule,
        Question,
        StepToCome,
        UnknownOutcome,
    )
    from perdure.kernel.events import Reason


@dataclass(frozen=True)
class GoalDetailView:
    """A goal with its state, its pending posts and its children."""

    goal: GoalView
    pending: Sequence[InboxRow] = ()
    children: Sequence[GoalView] = ()
    """The oldest first."""
    damage: str | None = None
    """The damage of its history, if any; if no event is readable, the goal has no state."""

    @property
    def state(self) -> GoalState:
        """The state that is folded from its events.

        Raises: Damaged when they cannot be read.
        """
        if self.goal.state is None:
            raise Damaged(self.damage or f"The history of {self.goal.id} was not read.")
        return self.goal.state

    def wire(self) -> "GoalDetail":
        """Return the one JSON form of a goal in detail."""
        state = self.goal.state
        return {
            **self.goal.wire(),
            "timeline": [] if state is None else [call_wire(state, call) for call in state.calls.values()],
            "model_steps": [] if state is None else model_steps(state),
            "not_begun": [] if state is None else _not_begun_wire(state),
            "questions": [] if state is None else _questions(state),
            "unknown": [] if state is None else _unknown(state),
            "pending": [_pending_wire(row) for row in self.pending],
            "limits": None if state is None else _limits(state),
            "policy": None if state is None else _policy(state),
            "children": [_child_wire(child) for child in self.children],
            "damage": self.damage,
        }


def not_begun(state: GoalState) -> dict[str, str]:
    """Return the steps of a plan without a call, each `skipped` or `not begun`."""
    if state.begun.mind.kind != "plan":
        return {}
    from perdure.minds.plan.plan_view import step_statuses  # only a plan needs YAML

    uncalled = {name: each.status for name, each in step_statuses(state).items() if each.last is None}
    return {name: "skipped" if status == "skipped" else "not begun" for name, status in uncalled.items()}


def _not_begun_wire(state: GoalState) -> "list[StepToCome]":
    found: list[StepToCome] = [{"step": step, "state": said} for step, said in not_begun(state).items()]
    return found


def _questions(state: GoalState) -> "list[Question]":
    asked = [call.call for call in state.open_calls.values() if isinstance(call.call, Ask)]
    return [
        {
            "call_id": about.call_id,
            "step": about.step,
            "question": about.question,
            "options": options_of(about),
            "until": about.until,
        }
        for about in asked
    ]


def _unknown(state: GoalState) -> "list[UnknownOutcome]":
    found: list[UnknownOutcome] = [
        {"call_id": call.call.call_id, "step": call.call.step, "why": call.unknown.why}
        for call in state.open_calls.values()
        if call.unknown is not None
    ]
    return found


def _policy(state: GoalState) -> "Policy":
    policy = state.policy or PolicySpec()
    rules: list[PolicyRule] = [
        {"tool": rule["tool"], "verdict": rule["verdict"], "arguments": {**rule.get("arguments", {})}}
        for rule in policy.rules
    ]
    return {"preset": policy.preset, "rules": rules, "yes": policy.yes}


def policy_line(state: GoalState) -> str | None:
    """Return the policy of a goal in one line; None for the default, unless a model runs the goal."""
    policy = state.policy or PolicySpec()
    if policy == PolicySpec() and state.begun.mind.kind != "model":
        return None
    return "; ".join([policy.preset, *map(_rule_line, policy.rules), *(["yes"] if policy.yes else [])])


def _rule_line(rule: RuleSpec) -> str:
    patterns = [f"{path}={pattern}" for path, pattern in rule.get("arguments", {}).items()]
    return " ".join([rule["verdict"], rule["tool"], *patterns])


def _limits(state: GoalState) -> "GoalLimits":
    limits: GoalLimits = {
        "iterations": _amount(state, "iterations"),
        "tokens": _amount(state, "tokens"),
        "usd": _amount(state, "usd"),
        "seconds": _amount(state, "seconds"),
        "reached": state.reached_limit if state.termination is None else None,
    }
    return limits


def _amount(state: GoalState, name: LimitName) -> "Amount":
    amount: Amount = {"limit": getattr(state.limits, name), "used": getattr(state.used, name)}
    return amount


def _pending_wire(row: InboxRow) -> "Pending":
    return {"kind": row.kind, "payload": row.payload, "created_at": iso(row.created_us)}


def _child_wire(child: GoalView) -> "Child":
    parent = child.summary.parent
    return {
        "id": child.id,
        "call_id": None if parent is None else parent.call_id,
        "text": child.text,
        "status": child.status,
        "reason": cast("Reason | None", child.reason),
    }
