"""The summary of a goal in lists, derived from its state, and the filters of lists."""

from dataclasses import dataclass

from perdure.kernel.calls.cleanup import describe_cleanup
from perdure.kernel.calls.holding import describe_hold
from perdure.kernel.conversation.conversation import Overview
from perdure.kernel.events import ForkedFrom, ParentCall
from perdure.kernel.fold import GoalState, WaitingFor
from perdure.kernel.history.frozen import constructor
from perdure.statuses import FINAL, Status
from perdure.text.moments import moment_us
from perdure.text.storable import escaped

_LONGEST_DETAIL = 500


@dataclass(frozen=True, slots=True)
class Summary:
    """The row of a goal in lists. It changes in the same commit as the events, so that lists need no fold."""

    goal_id: str
    text: str
    mind: str
    status: Status
    created_us: int
    updated_us: int
    last_seq: int
    steps: int = 0
    cost_usd: float = 0.0
    reason: str | None = None
    detail: str | None = None
    """The beginning of the termination's detail; for a goal on hold or in cleanup, the reason of that."""
    waiting_for: WaitingFor | None = None
    bot: str | None = None
    flow: str | None = None
    """The name of the flow, if the goal runs one."""
    workdir: str | None = None
    forked_from: ForkedFrom | None = None
    parent: ParentCall | None = None
    tags: tuple[str, ...] = ()
    queue: str = "cli"
    """Which workers claim the goal automatically: `cli` (none), `server`, or `app.<name>`."""
    worker: str | None = None
    """The id of the owner; the leases know whether it is alive."""
    due_us: int | None = None
    """When a waiting goal can continue by itself, because of a timer or a retry.

    A goal that was resumed because it was due keeps this until it waits for something else or has ended, so that it is
    found again if its worker dies.
    """
    start_key: str | None = None
    """The key of the start of the goal; unique among goals that were not deleted. Set when the goal is created.

    A fork may take it.
    """
    deaths: int = 0
    """The number of workers that died in a row while they owned the goal, without progress in between."""
    overview: Overview | None = None
    """The overview of a conversation, for lists; None for other goals."""

    @property
    def is_final(self) -> bool:
        """Whether the goal has ended."""
        return self.status in FINAL


@dataclass(frozen=True, slots=True)
class GoalFilter:
    """The conditions of a list of goals; None matches all."""

    status: Status | tuple[Status, ...] | None = None
    """One status, or several alternatives."""
    queue: str | None = None
    worker: str | None = None
    """The id of the worker that owns the goal."""
    flow: str | None = None
    start_key: str | None = None
    forked_from: str | None = None
    """The id of the goal that the forks come from."""
    parent: str | None = None
    """The id of the goal that started the children."""
    bot: str | None = None
    tag: str | None = None
    created_after_us: int | None = None
    """Created at this moment or later."""
    created_before_us: int | None = None
    updated_before_us: int | None = None

    @property
    def statuses(self) -> tuple[Status, ...] | None:
        """The allowed statuses; None for all."""
        return (self.status,) if isinstance(self.status, str) else self.status


ALL_GOALS = GoalFilter()
_summary = constructor(Summary)
"""Constructs the summary of a commit, faster than the class itself."""


def summarise(
    state: GoalState,
    *,
    start_key: str | None = None,
    woken_us: int | None = None,
    queue: str = "cli",
    deaths: int = 0,
) -> Summary:
    """Return the summary of a state; a goal that runs because it was due keeps the moment `woken_us`."""
    begun, end = state.begun, state.termination
    waiting_for = state.waiting_for
    status = state.status_when(waiting_for)
    reason = None if end is None else end.reason
    due_us = woken_us if status == "open" else _due_us(state, waiting_for)
    return _summary(
        goal_id=state.goal_id,
        text=escaped(begun.text),
        mind=begun.mind.kind,
        status=status,
        created_us=state.created_us,
        updated_us=state.updated_us,
        last_seq=state.head.seq,
        steps=state.steps,
        cost_usd=state.used.usd,
        reason=reason,
        detail=_detail(state),
        waiting_for=waiting_for,
        bot=_escaped(begun.bot),
        flow=_escaped(begun.mind.flow),
        workdir=_escaped(begun.workdir),
        forked_from=begun.forked_from,
        parent=begun.parent,
        tags=tuple(escaped(tag) for tag in begun.tags),
        due_us=due_us,
        queue=queue,
        start_key=start_key,
        deaths=deaths,
        overview=state.conversation.overview if begun.mind.chat else None,
    )


def _escaped(text: str | None) -> str | None:
    return None if text is None else escaped(text)


def _detail(state: GoalState) -> str | None:
    detail = _detail_of_open(state) if state.termination is None else state.termination.detail
    return None if detail is None else escaped(detail)[:_LONGEST_DETAIL]


def _detail_of_open(state: GoalState) -> str | None:
    if state.hold is not None:
        return describe_hold(state.hold)
    return None if state.cancel is None else describe_cleanup(state.cancel)


def _due_us(state: GoalState, waiting_for: WaitingFor | None) -> int | None:
    """Return when a waiting goal can continue by itself; None at a limit, on hold, or without a timer."""
    failure = state.conversation.failure
    if waiting_for == "model" and failure is not None:
        return None if failure.retry_at is None else moment_us(failure.retry_at)
    is_asleep = waiting_for not in (None, "hold") and state.reached_limit is None
    return min(state.timers().values(), default=None) if is_asleep else None
