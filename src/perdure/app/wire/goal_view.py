"""The JSON form of a goal, from its summary in a list or from its whole history."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from perdure.app.wire.calls import failure_wire
from perdure.app.wire.next_attempts import earliest_attempt_us
from perdure.app.wire.next_commands import NextCommand, next_commands
from perdure.kernel.events import Termination, ToolError
from perdure.kernel.fold import GoalState
from perdure.kernel.history.repetition import ChildEffects
from perdure.kernel.summary import Summary, summarise
from perdure.statuses import GoalStatus
from perdure.text.moments import iso

if TYPE_CHECKING:
    from perdure.app.wire.resources.goals import ForkOrigin, Goal, ParentGoal
    from perdure.kernel.events import MindKind, Reason

T_co = TypeVar("T_co", covariant=True)
QUEUED = "Queued: the server runs it when it has room."


@dataclass(frozen=True)
class GoalResult(Generic[T_co]):
    """The result of a run of a goal: its value, and if it has ended, the reason.

    `detail` explains an end that is not `done`, such as `NameError: name 'x' is not defined (report.py, line 12)`, or
    why the goal is on hold.
    """

    id: str
    status: GoalStatus
    reason: str | None
    value: T_co
    """The result of the flow; None unless the goal is done."""
    detail: str | None = None

    @classmethod
    def of(cls, state: GoalState, queue: str, read: Callable[[Any], Any] = lambda value: value) -> "GoalResult[Any]":
        """Return the result of a goal that no worker runs; `read` converts the recorded value."""
        view = GoalView.of_state(state, queue=queue)
        ended = state.termination
        if ended is None:
            return GoalResult(state.goal_id, view.status, None, None, view.detail)
        value = read(ended.value) if ended.reason == "done" else ended.value
        return GoalResult(state.goal_id, view.status, ended.reason, value, ended.detail)


@dataclass(frozen=True)
class GoalView:
    """A goal at one moment; `is_running` comes from its lease, not from its events."""

    summary: Summary
    is_running: bool = False
    termination: Termination | None = None
    is_news: bool = True
    """False if a post to the goal was a repetition with the same key."""
    note: str | None = None
    """An additional remark about a goal that has not ended."""
    state: GoalState | None = field(default=None, repr=False, compare=False)
    """The state folded from its events; None in a list. The next commands are exact only with it."""
    next_goals: Sequence["GoalView"] = ()
    """The goals to act on next: the descendants that it waits for, or its parent if it has ended."""
    child_effects: ChildEffects | None = field(default=None, repr=False, compare=False)
    """The effects of its children, for a goal that is continued by a fork; None if they were not read."""

    @overload
    @classmethod
    def of_state(cls, state: GoalState, *, is_running: bool = False, row: Summary) -> "GoalView": ...
    @overload
    @classmethod
    def of_state(
        cls, state: GoalState, *, is_running: bool = False, queue: str, start_key: str | None = None
    ) -> "GoalView": ...
    @classmethod
    def of_state(
        cls,
        state: GoalState,
        *,
        is_running: bool = False,
        row: Summary | None = None,
        queue: str = "",
        start_key: str | None = None,
    ) -> "GoalView":
        """Return the view of a folded history; its row, or its queue and start key, are not part of the events."""
        if row is None:
            summary = summarise(state, start_key=start_key, queue=queue)
        else:
            summary = summarise(state, start_key=row.start_key, queue=row.queue, deaths=row.deaths)
        return cls(summary, is_running=is_running, termination=state.termination, state=state)

    @property
    def id(self) -> str:
        """The id of the goal."""
        return self.summary.goal_id

    @property
    def text(self) -> str:
        """Its task: a command line, the title of a plan, a flow with its arguments, or a text for a model."""
        return self.summary.text

    @property
    def reason(self) -> str | None:
        """The reason of its end; None if it has not ended."""
        return self.summary.reason

    @property
    def status(self) -> GoalStatus:
        """The status, which distinguishes running and interrupted goals by the lease."""
        if self.summary.status == "open":
            return "running" if self.is_running else "interrupted"
        return self.summary.status

    @property
    def is_final(self) -> bool:
        """Return whether it has ended."""
        return self.summary.is_final

    @property
    def detail(self) -> str | None:
        """The explanation of its end, or before the end, of its status."""
        if self.is_final:
            return self.summary.detail if self.termination is None else self.termination.detail
        if self.note is None and self.summary.waiting_for == "hold":
            return self.summary.detail
        return QUEUED if self.note is None and self.is_queued else self.note

    @property
    def error(self) -> ToolError | None:
        """The error of a failed goal, with the traceback of user code if it raised; None in a list."""
        return self.termination.error if self.termination is not None else None

    @property
    def next(self) -> Sequence[NextCommand]:
        """The commands that a person can run next, the most useful first."""
        others = [command for goal in self.next_goals for command in goal.next]
        own = next_commands(self.summary, self.state, is_running=self.is_running, children=self.child_effects)
        return [*own, *others] if self.is_final else others or own

    @property
    def is_queued(self) -> bool:
        """Return whether it waits for the worker of a server."""
        return self.summary.queue == "server" and self.status == "interrupted"

    @property
    def due_at(self) -> str | None:
        """The time at which a waiting goal can continue by itself; None if it cannot."""
        due_us = self.summary.due_us
        return None if due_us is None else iso(due_us)

    @property
    def next_attempt_at(self) -> str | None:
        """The time of the next attempt of a failed step; None without one, and in a list."""
        next_us = None if self.state is None else earliest_attempt_us(self.state)
        return None if next_us is None else iso(next_us)

    def is_overdue(self, now_us: int) -> bool:
        """Return whether a waiting goal is due and no worker runs it."""
        due_us = self.summary.due_us
        return due_us is not None and due_us <= now_us and self.status == "waiting" and not self.is_running

    @property
    def tokens(self) -> int | None:
        """The number of tokens that it has used; None in a list, which does not fold histories."""
        return None if self.state is None else self.state.used.tokens

    def wire(self) -> "Goal":
        """Return the one JSON form of a goal."""
        goal = self.summary
        due_at = self.due_at if self.status == "waiting" else None
        output = self.termination.value if self.termination else None
        origin: ForkOrigin | None = None
        if goal.forked_from is not None:
            origin = {"goal_id": goal.forked_from.goal_id, "seq": goal.forked_from.seq}
        parent: ParentGoal | None = None
        if goal.parent is not None:
            parent = {"goal_id": goal.parent.goal_id, "call_id": goal.parent.call_id}
        return {
            "id": goal.goal_id,
            "key": goal.start_key,
            "text": goal.text,
            "mind": cast("MindKind", goal.mind),
            "flow": goal.flow,
            "bot": goal.bot,
            "queue": goal.queue,
            "workdir": goal.workdir,
            "status": self.status,
            "reason": cast("Reason | None", goal.reason),
            "detail": self.detail,
            "waiting_for": goal.waiting_for,
            "due_at": due_at,
            "next_attempt_at": self.next_attempt_at,
            "tags": [*goal.tags],
            "created_at": iso(goal.created_us),
            "updated_at": iso(goal.updated_us),
            "last_seq": goal.last_seq,
            "steps": goal.steps,
            "cost_usd": goal.cost_usd,
            "tokens": self.tokens,
            "parent": parent,
            "forked_from": origin,
            "output": output,
            "error": failure_wire(self.error),
            "next": [each.wire() for each in self.next],
        }
