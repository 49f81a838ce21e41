"""Names of steps that people type: in full as `goal show` prints them, or any unambiguous short form."""

from collections.abc import Iterator
from dataclasses import dataclass

from perdure.errors import Invalid, NotFound
from perdure.kernel.events import Wait
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState

_LISTED = 20
_VERSION = "version:"
_TIMER = "timer:"
_MARKERS = (_VERSION, _TIMER)
_DEADLINE = "timeout#"


@dataclass(frozen=True, slots=True)
class NamedStep:
    """The step that a name refers to, with its calls in order; a call id refers to one call."""

    step: str
    calls: tuple[CallState, ...]
    is_call: bool = False


def named_step(state: GoalState, name: str) -> NamedStep:
    """Return the step, or the single call, that a name refers to.

    A step of a flow, `/charge#1`, may be given without its branch (`charge#1`) and without its number (`charge`); a
    call (`/charge#1.2`) likewise. A whole name wins over a short one, and a step over a call.

    Raises: NotFound; Invalid when the name is ambiguous; both list the steps.
    """
    calls = list(state.calls.values())
    for found in (
        {call.call.step for call in calls if call.call.step == name},
        {call.call.call_id for call in calls if call.call.call_id == name},
        {call.call.step for call in calls if name in _short_names(call.call.step)},
        {call.call.call_id for call in calls if name in _short_call_ids(call)},
    ):
        if len(found) > 1:
            raise Invalid(f"{name!r} is ambiguous in {state.goal_id}. Expected one of {_listed(sorted(found))}.")
        if found:
            return _named(state, found.pop())
    raise NotFound(f"{state.goal_id} has no step {name!r}. {_known(state)}")


def short_name(state: GoalState, step: str) -> str:
    """Return the shortest name of a step that is unambiguous in a goal."""
    steps = {call.call.step for call in state.calls.values()}
    for name in (*_short_names(step), step):
        is_of_others = any(name == other or name in _short_names(other) for other in steps - {step})
        if not is_of_others and name not in state.calls:
            return name
    return step


def _named(state: GoalState, name: str) -> NamedStep:
    calls = tuple(call for call in state.calls.values() if call.call.step == name)
    if calls:
        return NamedStep(name, calls)
    call = state.calls[name]
    return NamedStep(call.call.step, (call,), is_call=True)


def branch_of(step: str) -> str:
    """Return the branch of a flow's step `<branch>/<name>#<n>`; the body of the flow is the empty branch."""
    return step.rpartition("/")[0]


def may_follow(branch: str, other: str) -> bool:
    """Return whether a later call in another branch of a flow may depend on a call in a branch.

    Branches are paths of gathers: `g1.0.g2.1` is line 1 of gather 2, in line 0 of gather 1. Calls in one branch, and in
    an enclosing branch, are sequential. Two paths that differ in the number of a line are lines of the same gather and
    run concurrently. Two paths that differ in a gather are sequential: the later gather began when the earlier had
    ended.
    """
    for one, two in zip(_path(branch), _path(other), strict=False):
        if one != two:
            return one.startswith("g") and two.startswith("g") and int(two[1:]) > int(one[1:])
    return True


def marker_step(branch: str, name: str) -> str:
    """Return the step name of the marker that records which version of its code a flow has chosen."""
    return f"{branch}/{_VERSION}{name}"


def timer_step(branch: str, number: int) -> str:
    """Return the step name of the record of a fired timer: a deadline of asyncio in a flow, or a sleep."""
    return f"{branch}/{_TIMER}{number}"


def is_marker(step: str) -> bool:
    """Return whether a step is a marker, which the code of a flow does not request: a version or a fired timer."""
    if ":" not in step:
        return False
    tail = step.rpartition("/")[2]
    return tail.startswith(_MARKERS) and "#" not in tail


def is_version(step: str) -> bool:
    """Return whether a step is the marker of a version."""
    return _VERSION in step and is_marker(step) and not is_timer(step)


def is_timer(step: str) -> bool:
    """Return whether a step is the record of a fired timer."""
    return _TIMER in step and is_marker(step) and step.rpartition("/")[2].startswith(_TIMER)


def is_deadline(call: CallState) -> bool:
    """Return whether a call is the recorded deadline of a block: `goal.timeout(seconds)`."""
    is_timer = isinstance(call.call, Wait) and call.call.signal is None
    return is_timer and call.call.step.rpartition("/")[2].startswith(_DEADLINE)


def is_sleep(call: CallState) -> bool:
    """Return whether a call waits for a moment and is not a deadline."""
    return isinstance(call.call, Wait) and call.call.signal is None and not is_deadline(call)


def is_below(branch: str, above: str) -> bool:
    """Return whether a branch equals another one or is nested in it."""
    return branch == above or not above or branch.startswith(f"{above}.")


def _path(branch: str) -> list[str]:
    return branch.split(".") if branch else []


def _short_names(step: str) -> Iterator[str]:
    """Yield the short names of a step of a flow, the shortest first; a step of a plan has none."""
    _branch, slash, tail = step.rpartition("/")
    if slash:
        yield tail.partition("#")[0].removeprefix("@")
        yield tail


def _short_call_ids(call: CallState) -> Iterator[str]:
    step, call_id = call.call.step, call.call.call_id
    if call_id.startswith(step):
        for name in _short_names(step):
            yield name + call_id.removeprefix(step)


def _known(state: GoalState) -> str:
    steps = list(dict.fromkeys(call.call.step for call in state.calls.values()))
    return f"Its steps are {_listed(steps)}." if steps else "No step of it is recorded yet."


def _listed(names: list[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
