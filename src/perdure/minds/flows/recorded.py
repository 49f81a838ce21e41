"""What a history has of the steps of a flow, and where code that is not the same parts from it."""

import shlex

from perdure.errors import Conflict
from perdure.kernel.events import Action, ToolCall
from perdure.kernel.fold import CallState, GoalState
from perdure.kernel.step_names import branch_of, short_name
from perdure.minds.flows.requests import Request


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
            self._left.setdefault(call.call.step, call)
        self._intents = [call for call in self._left.values() if not is_pure(call.call)]
        """The intents in their order; `_next_intent` is the first of them that the code may not have asked for."""
        self._next_intent = 0
        self._new: dict[str, list[Request]] = {}
        """What the code has asked for and the history does not have, by branch."""
        self._last: dict[str, Request] = {}
        """What the code has asked for last, by branch."""
        self._found: dict[str, str] = {}

    @property
    def is_all_asked(self) -> bool:
        """Whether the code has asked for all that was recorded."""
        return not self._left

    @property
    def has_difference(self) -> bool:
        """Whether the code has asked for something else than what was recorded."""
        return bool(self._found)

    def is_asked_before(self, seq: int) -> bool:
        """Tell whether the code has asked for all whose intents were recorded before an event.

        In the first run it had asked for them when the outcome of that event was delivered. So a flow that is run again
        and has not must be waited for: it has unrecorded work to do, such as a sleep of asyncio.
        """
        intents = self._intents
        while self._next_intent < len(intents) and intents[self._next_intent].call.step not in self._left:
            self._next_intent += 1
        return self._next_intent == len(intents) or intents[self._next_intent].seq > seq

    def agrees(self, request: Request) -> bool:
        """Tell whether the history, where it has the step of a request, has the same."""
        step = request.step
        self._last[branch_of(step)] = request
        recorded = self._left.get(step)
        if recorded is None:
            self._new.setdefault(branch_of(step), []).append(request)
            return True
        before = None if request.is_pure or request.has_id else self._asked_before(branch_of(step))
        difference = request.differs_from(recorded.call) if before is None else f"the code asks for {before} before it"
        if difference is None:
            del self._left[step]
            return True
        self._found[step] = difference
        return False

    def _asked_before(self, branch: str) -> str | None:
        """Return a step of a branch that waits to be begun, and would have been recorded before what is asked for."""
        new = self._new.get(branch, ())
        waiting = [each for each in new if not (each.answer.done() or each.is_pure or each.has_id)]
        return waiting[0].step if waiting else None

    def require_all_asked(self, path: str, ended: str | None) -> None:
        """Check that the code has asked for all that the history has, as far as the recorded outcomes lead it.

        What the code did not ask for, though everything before it has ended, it will never ask for. Of several such
        steps the one that was begun first is named: up to that step, all branches agree.

        Raises: ChangedFlow
        """
        if not self._left:
            return
        first = min(self._left.values(), key=lambda call: call.seq)
        step = first.call.step
        found = self._found.get(step) or self._instead(branch_of(step), ended)
        what = (
            f"The flow {path} is not the one that wrote this history: step {step} is recorded as event {first.seq},"
            f" {found}."
        )
        raise ChangedFlow(what, self._state.goal_id, short_name(self._state, step))

    def _instead(self, branch: str, ended: str | None) -> str:
        last = self._last.get(branch)
        if last is not None and not last.answer.done():
            return f"the code asks for {last.step}"
        return "the code does not ask for it" if ended is None else ended
