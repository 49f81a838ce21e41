"""What a history has of the steps of a flow, and where code that is not the same parts from it."""

import shlex

from perdure.errors import Conflict
from perdure.kernel.events import Action, ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.step_names import branch_of, is_marker, may_follow, short_name
from perdure.minds.flow.requests import Request, is_id


class ChangedFlow(Conflict):
    """The code of a flow is not what wrote a history; a fork before `step` keeps all that the two agree on."""

    def __init__(self, what: str, goal_id: str, step: str, command: str | None = None) -> None:
        offered = command or shlex.join(["perdure", "goal", "fork", goal_id, "--before", step])
        super().__init__(
            f"{what} Nothing was changed. Resume it with the code as it was, or fork it before that step: {offered}"
        )
        self.what = what
        self.goal_id = goal_id
        self.step = step
        """Its shortest name."""


def is_pure(call: Action) -> bool:
    """Tell whether only the outcome of a call is recorded."""
    return isinstance(call, ToolCall) and call.effect == "pure"


class Recorded:
    """The steps of a history, and which of them the code has asked for again.

    The intents of one branch are recorded in the order in which the code asks for them. So a recorded step that is
    asked for behind a step that was never recorded proves that the code was changed. A pure step has no intent, and a
    step with an id has no place in the order: both may be asked for at any time.
    """

    def __init__(self, state: GoalState) -> None:
        self._state = state
        self._left: dict[str, CallState] = {}
        """The first call of each recorded step that the code has not asked for."""
        for call in state.calls.values():
            if not is_marker(call.call.step):
                self._left.setdefault(call.call.step, call)
        self._intents = [call for call in self._left.values() if not is_pure(call.call)]
        """The intents in their order; `_next_intent` is the first of them that the code may not have asked for."""
        self._next_intent = 0
        self._new: dict[str, list[Request]] = {}
        """What the code has asked for and the history does not have, by branch."""
        self._last: dict[str, Request] = {}
        """What the code has asked for last, by branch."""
        self._found: dict[str, str] = {}
        self._behind: dict[str, tuple[CallState, Request]] = {}
        """Recorded steps that were asked for behind a step that was never recorded, which may be cancelled yet."""

    @property
    def is_all_asked(self) -> bool:
        """Whether the code has asked for all that was recorded."""
        return not self._left

    @property
    def count_left(self) -> int:
        """How many recorded steps the code has not asked for."""
        return len(self._left)

    @property
    def has_difference(self) -> bool:
        """Whether the code has asked for something else than what was recorded."""
        return bool(self._found)

    def has_asked_before(self, seq: int) -> bool:
        """Tell whether the code has asked for all whose intents were recorded before an event.

        In the first run it had asked for them when the outcome of that event was delivered. So a flow that is run again
        and has not must be waited for: it has unrecorded work to do, such as a sleep of asyncio.
        """
        intents, left, position = self._intents, self._left, self._next_intent
        while position < len(intents) and intents[position].call.step not in left:
            position += 1
        self._next_intent = position
        return position == len(intents) or intents[position].seq > seq

    def ahead(self, branch: str) -> int | None:
        """Return the first recorded event that a branch is still to ask for, or that comes after what it does."""
        left = (call for step, call in self._left.items() if may_follow(branch, branch_of(step)))
        return next((call.seq for call in left), None)

    def agrees(self, request: Request) -> bool:
        """Tell whether the history, where it has the step of a request, has the same."""
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
        """Whether it is not known yet if the code has asked for something else before a recorded step."""
        return bool(self._behind)

    def has_difference_before(self, next_seq: float) -> bool:
        """Tell whether `settle_doubts` would find a difference, because nothing has cancelled a step yet."""
        return any(seen.seq < next_seq and not before.answer.done() for seen, before in self._behind.values())

    def settle_doubts(self, next_seq: float) -> None:
        """Find the differences that are left when every task of the flow waits for the outcome of an event.

        A step that the flow has cancelled before it could begin was not recorded in the first run either. Outcomes that
        were recorded before a step are delivered before it begins, so one of them may still cancel the other.
        """
        for step, (recorded, before) in list(self._behind.items()):
            if before.answer.done():
                del self._behind[step]
            elif recorded.seq < next_seq:
                del self._behind[step]
                self._left[step] = recorded
                self._found[step] = _asked_for(before)

    def _asked_before(self, branch: str) -> Request | None:
        """Return a step of a branch that waits to be begun, and would have been recorded before what is asked for."""
        waiting = [each for each in self._new[branch] if not (each.answer.done() or each.is_pure or each.has_id)]
        return waiting[0] if waiting else None

    def require_all_asked(self, path: str, ended: str | None) -> None:
        """Check that the code has asked for all that the history has, as far as the recorded outcomes lead it.

        What the code did not ask for, though everything before it has ended, it will never ask for. Of several such
        steps the one that was begun first is named: up to that step, all branches agree.

        Raises: ChangedFlow
        """
        if not self._left or (ended is None and self._may_be_asked_later()):
            return
        first = min(self._left.values(), key=lambda call: call.seq)
        step = first.call.step
        found = self._found.get(step) or self._instead(branch_of(step), ended)
        what = (
            f"The flow {path} is not the one that wrote this history: step {step} is recorded as event {first.seq},"
            f" {found}."
        )
        raise ChangedFlow(what, self._state.goal_id, short_name(self._state, step))

    def _may_be_asked_later(self) -> bool:
        """Tell whether only steps with ids are left, and the code is to begin something that may come before them."""
        is_begun = any(not each.answer.done() for new in self._new.values() for each in new)
        return is_begun and all(is_id(step) for step in self._left)

    def _instead(self, branch: str, ended: str | None) -> str:
        last = self._last.get(branch)
        if last is not None and not last.answer.done():
            return f"the code asks for {last.step}"
        return "the code does not ask for it" if ended is None else ended


def _asked_for(before: Request) -> str:
    return f"the code asks for {before.step} before it"
