"""The recorded steps of a flow, and the first difference of changed code to them."""

from perdure.kernel.events import Action, ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.reopening import ForkOffered
from perdure.kernel.history.step_names import branch_of, is_marker, may_follow, short_name
from perdure.minds.flow.requests import Request, is_id

_WITHOUT_TIMERS = (
    " Or the deadlines of the flow have passed in another order: an older Perdure began this goal, and its history does"
    " not record which deadlines of asyncio had passed."
)


class ChangedFlow(ForkOffered):
    """The code of a flow differs from the code that wrote the history; a fork before the step keeps the common part."""

    advice = "Nothing was changed. Resume the goal with the code that wrote its history, or fork it before that step"


def is_pure(call: Action) -> bool:
    """Return whether only the outcome of a call is recorded."""
    return isinstance(call, ToolCall) and call.effect == "pure"


class Recorded:
    """The steps of a history, and which of them the code has requested again.

    The intents of one branch are recorded in the order in which the code requests them. So if the code requests a step
    that was never recorded, and then a recorded step, the code was changed. A pure step has no intent, and a step with
    an id has no position in the order: both may be requested at any time.
    """

    def __init__(self, state: GoalState) -> None:
        self._state = state
        self._left: dict[str, CallState] = {}
        """The first call of each recorded step that the code has not requested."""
        for call in state.calls.values():
            if not is_marker(call.call.step):
                self._left.setdefault(call.call.step, call)
        self._intents = [call for call in self._left.values() if not is_pure(call.call)]
        """The intents in order; all before `_next_intent` were requested."""
        self._next_intent = 0
        self._new: dict[str, list[Request]] = {}
        """Requests that are not in the history, by branch."""
        self._last: dict[str, Request] = {}
        """The last request of each branch."""
        self._found: dict[str, str] = {}
        self._behind: dict[str, tuple[CallState, Request]] = {}
        """Recorded steps that were requested after a step that was never recorded and may still be cancelled."""
        self.has_guessed_timers = False
        """Whether timers were fired that the history does not record."""

    @property
    def is_all_asked(self) -> bool:
        """Whether the code has requested all recorded steps."""
        return not self._left

    @property
    def has_difference(self) -> bool:
        """Whether a request differs from the recorded step."""
        return bool(self._found)

    def has_asked_before(self, seq: int) -> bool:
        """Return whether the code has requested all steps whose intents were recorded before an event.

        In the first run, it had requested them when the outcome of that event was delivered. So a replay that has not
        must wait for the flow, which has unrecorded work to do, such as a sleep of asyncio.
        """
        intents, left, position = self._intents, self._left, self._next_intent
        while position < len(intents) and intents[position].call.step not in left:
            position += 1
        self._next_intent = position
        return position == len(intents) or intents[position].seq > seq

    def ahead(self, branch: str) -> int | None:
        """Return the first recorded event that a branch has yet to request, or that may follow from the branch."""
        left = (call for step, call in self._left.items() if may_follow(branch, branch_of(step)))
        return next((call.seq for call in left), None)

    def agrees(self, request: Request) -> bool:
        """Return whether a request equals the recorded step, if the step is recorded."""
        step = request.step
        branch = branch_of(step)
        self._last[branch] = request
        recorded = self._left.get(step)
        if recorded is None:
            self._new.setdefault(branch, []).append(request)
            return True
        is_in_order = branch in self._new and not (request.is_pure or request.has_id)
        before = self._asked_before(branch) if is_in_order else None
        difference = request.differs_from(recorded.call)
        if difference is not None:
            self._found[step] = difference if before is None else _asked_for(before)
            return False
        if before is not None:
            self._behind[step] = recorded, before
        del self._left[step]
        return True

    @property
    def is_in_doubt(self) -> bool:
        """Whether it is not yet known if the code requested another step before a recorded one."""
        return bool(self._behind)

    def has_difference_before(self, next_seq: float) -> bool:
        """Return whether `settle_doubts` would find a difference now."""
        return any(seen.seq < next_seq and not before.answer.done() for seen, before in self._behind.values())

    def settle_doubts(self, next_seq: float) -> None:
        """Record the remaining differences when all tasks of the flow wait for the outcome of an event.

        A step that the flow cancels before it begins is not recorded, in the first run either. Outcomes that were
        recorded before a step are delivered before it begins, so one of them may still cancel the unrecorded step.
        """
        for step, (recorded, before) in list(self._behind.items()):
            if before.answer.done():
                del self._behind[step]
            elif recorded.seq < next_seq:
                del self._behind[step]
                self._left[step] = recorded
                self._found[step] = _asked_for(before)

    def _asked_before(self, branch: str) -> Request | None:
        """Return an unrecorded request of a branch that would have been recorded before the current one."""
        waiting = [each for each in self._new[branch] if not (each.answer.done() or each.is_pure or each.has_id)]
        return waiting[0] if waiting else None

    def require_all_asked(self, path: str, ended: str | None) -> None:
        """Check that the code has requested all recorded steps, after all recorded outcomes were delivered.

        A step that the code has not requested by then will never be requested. Of several such steps, the error names
        the one that was begun first: up to that step, all branches agree.

        Raises: ChangedFlow
        """
        if not self._left or (ended is None and self._may_be_asked_later()):
            return
        first = min(self._left.values(), key=lambda call: call.seq)
        step = first.call.step
        found = self._found.get(step) or self._instead(branch_of(step), ended)
        what = (
            f"The code of the flow {path} does not match the history of this goal. Event {first.seq} of the history is"
            f" step {step}; {found}."
        )
        if self.has_guessed_timers:
            what += _WITHOUT_TIMERS
        raise ChangedFlow(what, self._state.goal_id, short_name(self._state, step))

    def _may_be_asked_later(self) -> bool:
        """Return whether only steps with ids are left, and the code has open requests that may precede them."""
        is_begun = any(not each.answer.done() for new in self._new.values() for each in new)
        return is_begun and all(is_id(step) for step in self._left)

    def _instead(self, branch: str, ended: str | None) -> str:
        last = self._last.get(branch)
        if last is not None and not last.answer.done():
            return f"the code calls {last.step} instead"
        return "the code does not call it" if ended is None else ended


def _asked_for(before: Request) -> str:
    return f"the code calls {before.step} first"
