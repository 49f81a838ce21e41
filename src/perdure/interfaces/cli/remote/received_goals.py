"""Parses goals and events of a server for the commands that show them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from perdure.app.goals.values import Event, ForkedFrom, GoalState, ParentCall, Summary
from perdure.app.wire.goal_detail import GoalDetailView
from perdure.app.wire.goal_view import QUEUED, GoalView
from perdure.app.wire.next_commands import NextCommand
from perdure.app.wire.resources.events import Event as WireEvent
from perdure.text.moments import moment_us

if TYPE_CHECKING:
    from perdure.app.wire.resources import goals as wire


@dataclass(frozen=True)
class ReceivedGoal(GoalView):
    """A goal of a server; its JSON form and its next commands are those of the response."""

    received: Any = field(default=None, repr=False)

    @property
    def next(self) -> Sequence[NextCommand]:
        """See GoalView.next."""
        return [NextCommand(each["command"], each["why"]) for each in self.received["next"]]

    def wire(self) -> "wire.Goal":
        """See GoalView.wire."""
        goal: wire.Goal = self.received
        return goal


@dataclass(frozen=True)
class ReceivedDetail(GoalDetailView):
    """A goal of a server in detail."""

    received: Any = field(default=None, repr=False)

    def wire(self) -> "wire.GoalDetail":
        """See GoalDetailView.wire."""
        detail: wire.GoalDetail = self.received
        return detail


def read_goal(goal: "wire.Goal", state: GoalState | None = None) -> ReceivedGoal:
    """Parse a goal, with the state of its events if they were read."""
    ended = None if state is None else state.termination
    is_noted = goal["detail"] not in (None, QUEUED) and goal["waiting_for"] != "hold"
    return ReceivedGoal(
        _summary(goal),
        is_running=goal["status"] == "running",
        termination=ended,
        note=goal["detail"] if is_noted and goal["reason"] is None else None,
        state=state,
        received=goal,
    )


def read_event(event: WireEvent) -> Event:
    """Parse an event. The payload is serialised again, so its hash cannot be verified."""
    return Event(
        goal_id=event["goal_id"],
        seq=event["seq"],
        id=event["id"],
        type=event["type"],
        iteration=event["iteration"],
        timestamp_us=moment_us(event["timestamp"]),
        payload=orjson.dumps(event["payload"]).decode(),
        hash=bytes.fromhex(event["hash"]),
        v=event["v"],
    )


def _summary(goal: "wire.Goal") -> Summary:
    parent, origin, due_at = goal["parent"], goal["forked_from"], goal["due_at"]
    status = goal["status"]
    stored_status = "open" if status == "running" or status == "interrupted" else status  # noqa: PLR1714 (narrows)
    forked_from = None if origin is None else ForkedFrom(origin["goal_id"], origin["seq"])
    started_by = None if parent is None else ParentCall(parent["goal_id"], parent["call_id"])
    due_us = None if due_at is None else moment_us(due_at)
    return Summary(
        goal_id=goal["id"],
        text=goal["text"],
        mind=goal["mind"],
        status=stored_status,
        created_us=moment_us(goal["created_at"]),
        updated_us=moment_us(goal["updated_at"]),
        last_seq=goal["last_seq"],
        steps=goal["steps"],
        cost_usd=goal["cost_usd"],
        reason=goal["reason"],
        detail=goal["detail"],
        waiting_for=goal["waiting_for"],
        bot=goal["bot"],
        flow=goal["flow"],
        workdir=goal["workdir"],
        forked_from=forked_from,
        parent=started_by,
        tags=tuple(goal["tags"]),
        queue=goal["queue"],
        due_us=due_us,
        start_key=goal["key"],
    )
