"""The steps of a plan in a goal, for observers that do not run it."""

from collections.abc import Mapping
from functools import lru_cache

from perdure.errors import Invalid
from perdure.kernel.events import ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.minds.plan.graph import Graph
from perdure.minds.plan.plan_file import parse_plan
from perdure.minds.plan.progress import Progress
from perdure.minds.step_status import StepStatus, call_id, status_of_step


def step_statuses(state: GoalState) -> Mapping[str, StepStatus]:
    """Return the status of each step of a plan, in the order of the file; nothing for any other goal."""
    graph = _graph_of(state)
    if graph is None:
        return {}
    progress = Progress(graph, state)
    progress.update()
    progress.fail_late(state.updated_us)
    return progress.found


def next_try_us(state: GoalState, call: CallState) -> int | None:
    """Return the time of the next attempt after a failed call, if there is one."""
    graph = _graph_of(state)
    step = graph.steps.get(call.call.step) if graph is not None else None
    if step is None or state.termination is not None or call.ended_us is None or not isinstance(call.call, ToolCall):
        return None
    if call_id(step.id, call.call.attempt + 1) in state.calls:
        return None  # the next attempt was made
    found = status_of_step(state, step.id, step.retry, after=call.call.attempt)
    is_due = found.status == "retry" and found.last is call and found.wait_us > 0
    return call.ended_us + found.wait_us if is_due else None


def _graph_of(state: GoalState) -> Graph | None:
    mind = state.begun.mind
    return _graph(mind.plan) if mind.kind == "plan" and mind.plan is not None else None


@lru_cache(maxsize=4)
def _graph(text: str) -> Graph | None:
    try:
        return Graph(parse_plan(text, "plan", is_stored=True).steps)
    except Invalid:
        return None  # the plan is of a version with other rules
