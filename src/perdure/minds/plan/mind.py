"""The mind of a plan: decides which steps start, which are skipped, and when the goal ends."""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from perdure.errors import Invalid
from perdure.kernel.calls.toolbox import Toolbox
from perdure.kernel.events import Action, Ask, Body, Termination, ToolCall, Wait
from perdure.kernel.mind import Proposal
from perdure.kernel.ports import GoalState
from perdure.minds.plan.graph import Graph
from perdure.minds.plan.plan import Exec, Pause, Plan, PlanStep, Question, UseTool
from perdure.minds.plan.progress import Progress
from perdure.minds.plan.step_env import fit_variables
from perdure.minds.step_status import StepStatus, call_id, is_running
from perdure.text.moments import iso


class PlanMind:
    """Decides by the plan and the state alone; see Mind.

    After a failed step, running steps continue to their end, including retries, and only steps whose `if` expects a
    failure are started. A step that expects a skipped step is not started, because a failure also skips steps that
    would have run otherwise. A failed goal does not wait for questions and pauses that no step needs.
    """

    is_slow = False

    def __init__(self, plan: Plan, jobs: int = 4) -> None:
        if jobs < 1:
            raise Invalid(f"At least one job must be allowed at a time, found {jobs}.")
        self._steps = plan.steps
        self._jobs = jobs
        self._graph = Graph(plan.steps)
        self._progress: Progress | None = None

    async def prepare(self, state: GoalState, tools: Toolbox) -> Sequence[Body]:  # noqa: ARG002 (it records nothing)
        """See Mind.prepare."""
        return ()

    async def close(self) -> None:
        """See Mind.close."""

    async def decide(self, state: GoalState, now_us: int) -> Proposal:
        """See Mind.decide."""
        progress = self._update(state)
        progress.fail_late(now_us)
        running = sum(is_running(call) for call in state.open_calls.values())
        if progress.is_aborted:
            return Proposal() if running else Proposal(end=_end(progress.found))
        if progress.is_over:
            return Proposal(end=_end(progress.found))
        return self._begin(progress, self._jobs - running, now_us)

    def has_news(self) -> bool:
        """See Mind.has_news. It decides only when it is asked."""
        return False

    def take_abandoned(self) -> Sequence[str]:
        """See Mind.take_abandoned. All its calls have an intent."""
        return ()

    def environment(self, state: GoalState, call: ToolCall) -> Mapping[str, str]:
        """Return the outputs of the steps that the call's step needs, directly or through others, nearest first."""
        outputs = self._update(state).outputs
        return fit_variables([outputs[need] for need in self._graph.all_needs(call.step) if need in outputs])

    @property
    def folders(self) -> tuple[str, ...]:
        """The absolute working folders of steps in the plan."""
        named = [step.work.cwd or "" for step in self._steps if isinstance(step.work, Exec)]
        return tuple(folder for folder in named if folder.startswith("/"))

    @property
    def tools(self) -> frozenset[str]:
        """The names of the tools in the plan."""
        return frozenset(step.work.tool for step in self._steps if isinstance(step.work, UseTool))

    def _update(self, state: GoalState) -> Progress:
        """Return the progress of the steps; it is computed from the start only for another state object."""
        if self._progress is None or self._progress.state is not state:
            self._progress = Progress(self._graph, state)
        self._progress.update()
        return self._progress

    def _begin(self, progress: Progress, free: int, now_us: int) -> Proposal:
        """Start ready steps in the order of the file; tools only while there are free slots."""
        waiting = {at: progress.found[self._steps[at].id].due_us(now_us) for at in progress.again}
        wakes = [moment for moment in waiting.values() if moment > now_us]
        due = [at for at, moment in waiting.items() if moment <= now_us]
        actions: list[Action] = []
        for at in sorted([*due, *progress.ready_others, *progress.ready_tools[: max(free, 0)]]):
            step = self._steps[at]
            if step.is_tool:
                if free <= 0:
                    continue
                free -= 1
            actions.append(_action(step, progress.found[step.id].attempt + 1, now_us))
        return Proposal(actions, wake_us=min(wakes, default=None))


def _action(step: PlanStep, attempt: int, now_us: int) -> Action:
    name = call_id(step.id, attempt)
    match step.work:
        case Exec():
            return ToolCall(name, step.id, "exec", _exec_arguments(step.work), step.effect, attempt)
        case UseTool(tool=tool, arguments=arguments):
            return ToolCall(name, step.id, tool, dict(arguments), step.effect, attempt)
        case Question(question=question, options=options):
            return Ask(name, step.id, question, options)
        case Pause(seconds=seconds, until_us=until_us):
            moment_us = until_us if until_us is not None else now_us + int((seconds or 0) * 1_000_000)
            return Wait(name, step.id, until=iso(moment_us))
        case _:
            assert_never(step.work)


def _exec_arguments(work: Exec) -> dict[str, Any]:
    given = {
        "argv": [*work.argv],
        "shell": work.is_shell or None,
        "timeout_s": work.timeout_s,
        "env": dict(work.env) or None,
        "cwd": work.cwd,
        "check": None if work.check is None else [*work.check],
    }
    return {name: value for name, value in given.items() if value is not None}


def _end(found: Mapping[str, StepStatus]) -> Termination:
    value = {name: _summary(each) for name, each in found.items()}
    failed = [(name, each) for name, each in found.items() if each.status == "failed"]
    if not failed:
        return Termination("done", value=value)
    name, each = min(failed, key=lambda it: (not it[1].is_aborted, it[1].last.ended_us or 0 if it[1].last else 0))
    return Termination(
        "failed", f"Step {name} failed: {each.why}", value, each.error, tuple(name for name, _ in failed)
    )


def _summary(each: StepStatus) -> dict[str, Any]:
    exit_code = each.output.get("exit_code") if isinstance(each.output, dict) else None
    return {"status": each.status} | ({} if exit_code is None else {"exit_code": exit_code})
