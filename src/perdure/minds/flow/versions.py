"""Versions of the code of a flow: with `goal.version(name, latest)`, goals finish with the code they began with."""

import asyncio
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from perdure.errors import Conflict, Invalid
from perdure.kernel.events import ToolOutput
from perdure.kernel.fold import GoalState
from perdure.kernel.history.step_names import branch_of, is_version, marker_step
from perdure.kernel.mind import Proposal
from perdure.minds.flow.requests import require_name
from perdure.minds.step_status import call_id

if TYPE_CHECKING:
    from perdure.minds.flow.mind import FlowMind


class UnsupportedVersion(Conflict):
    """A goal needs a version of a flow that this code does not have. Nothing was recorded."""


@dataclass(frozen=True)
class _Answer:
    """The version of a goal, the branch that first asked for it, and the event that records it."""

    number: int
    branch: str
    seq: float = inf


class Refusal:
    """Ends the run of a goal with an error after its running calls have ended and are recorded."""

    def __init__(self, error: Conflict) -> None:
        self.error = error
        self._seq = 0

    def decide(self, state: GoalState, now_us: int) -> Proposal:
        """Start no new call. See Mind.decide.

        Raises: the error, if no call runs and no event was recorded since the last decision
        """
        if state.is_busy:
            return Proposal()
        if state.head.seq == self._seq:
            raise self.error
        self._seq = state.head.seq
        return Proposal(wake_us=now_us)


class Versions:
    """The versions of one goal."""

    def __init__(self) -> None:
        self._answers: dict[str, _Answer] = {}
        self._fresh: list[ToolOutput] = []
        """Markers to record."""

    def load(self, state: GoalState) -> None:
        """Load the versions in a history."""
        for call in state.calls.values():
            step = call.call.step
            if is_version(step) and call.outcome is not None:
                branch = branch_of(step)
                name = step.removeprefix(marker_step(branch, ""))
                self._answers.setdefault(name, _Answer(int(call.outcome.output), branch, call.seq))

    def take_fresh(self) -> list[ToolOutput]:
        """Return the markers to record now, each once."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def choose(self, name: str, latest: int, branch: str, ahead: int | None) -> int:
        """Return the version of a goal; `ahead` is the first recorded event that the branch has yet to request.

        If there is such a step, and the version was not recorded before it, code without this call recorded the step:
        then it is version 1. That needs no marker, because the step is still ahead in every later replay. The branch
        that first asked for a version always gets the recorded one.
        """
        known = self._answers.get(name)
        is_older = ahead is not None and (known is None or (known.branch != branch and ahead < known.seq))
        if is_older:
            self._answers.setdefault(name, _Answer(1, branch))
            return 1
        if known is None:
            known = self._answers[name] = _Answer(latest, branch)
            step = marker_step(branch, name)
            self._fresh.append(ToolOutput(call_id(step, 1), ok=True, output=latest, step=step, effect="pure"))
        return known.number


async def choose_version(mind: "FlowMind", name: str, latest: int, oldest: int) -> int:
    """Return the version of the code that a goal runs. See `Goal.version`.

    It does not wait, so adding or removing a call does not change the order of events. If the code does not have the
    version, the call never returns, because `except` and `finally` blocks of the flow must not run.

    Raises: Invalid
    """
    _validate(name, latest, oldest)
    branch = mind.branch("goal.version")
    number = mind.versions.choose(name, latest, branch.name, mind.ahead(branch))
    if not oldest <= number <= latest:
        mind.refuse(_unsupported(mind.goal_id, name, number, latest, oldest))
        await asyncio.get_running_loop().create_future()
    return number


def _unsupported(goal_id: str, name: str, number: int, latest: int, oldest: int) -> UnsupportedVersion:
    has = f"version {latest}" if oldest == latest else f"versions {oldest} to {latest}"
    newer = "older" if number < oldest else "newer"
    return UnsupportedVersion(
        f"{goal_id} runs version {number} of {name!r}; this code has {has}. Nothing was changed. Resume it with the"
        f" {newer} code, or fork it before the step where they differ: perdure goal fork {goal_id} --before STEP"
    )


def _validate(name: Any, latest: Any, oldest: Any) -> None:
    if not isinstance(name, str):
        raise Invalid(f"The name of a version must be a string, got {name!r}.")
    require_name(name)
    is_number = all(isinstance(each, int) and not isinstance(each, bool) for each in (latest, oldest))
    if not is_number or not 1 <= oldest <= latest:
        raise Invalid(f"Versions must be whole numbers with 1 <= oldest <= latest, got {oldest!r} and {latest!r}.")
