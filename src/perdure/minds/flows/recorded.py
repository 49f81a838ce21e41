"""What a history has of the steps of a flow, and where code that is not the same parts from it."""

import shlex
from collections import Counter

from perdure.errors import Conflict
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


class Recorded:
    """The steps of a history, by branch and in order, and how many of each the code has asked for again."""

    def __init__(self, state: GoalState) -> None:
        self._state = state
        self._asked: Counter[str] = Counter()
        self._found: dict[str, str] = {}
        self._steps: dict[str, list[CallState]] = {}
        for call in state.calls.values():
            steps = self._steps.setdefault(branch_of(call.call.step), [])
            if not steps or steps[-1].call.step != call.call.step:  # further tries of a step say no more
                steps.append(call)

    def agrees(self, branch: str, request: Request) -> bool:
        """Tell whether the history, where there is one, has the same step at this place."""
        steps = self._steps.get(branch, [])
        if self._asked[branch] == len(steps):
            return True
        expected = steps[self._asked[branch]].call
        is_other = expected.step != request.step
        difference = f"the code asks for {request.step}" if is_other else request.differs_from(expected)
        if difference is None:
            self._asked[branch] += 1
            return True
        self._found[expected.step] = difference
        return False

    def require_all_asked(self, path: str, ended: str | None) -> None:
        """See that the code has asked for all that the history has, as far as it gets by what the history knows.

        What the code did not ask for, though all that came before has ended, it will never ask for. Of several such
        steps the one that began first is named: what came before it, all branches agree on.

        Raises: ChangedFlow
        """
        left = [steps[self._asked[name]] for name, steps in self._steps.items() if self._asked[name] < len(steps)]
        if not left:
            return
        first = min(left, key=lambda call: call.seq)
        step = first.call.step
        found = self._found.get(step) or ("the code does not ask for it" if ended is None else ended)
        what = (
            f"The flow {path} is not the one that wrote this history: step {step} is recorded as event {first.seq},"
            f" {found}."
        )
        raise ChangedFlow(what, self._state.goal_id, short_name(self._state, step))
