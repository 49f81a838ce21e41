"""The mind of a plan: which steps are ready, which are skipped, and when the goal is over."""

from collections.abc import Mapping
from typing import Any, assert_never

import orjson

from perdure.errors import Invalid
from perdure.kernel.events import Action, Ask, Termination, ToolCall, Wait, iso
from perdure.kernel.ports import Decided, GoalState
from perdure.minds.plan_graph import needs_first
from perdure.minds.plan_shape import Exec, Pause, Plan, PlanStep, Question, UseTool
from perdure.minds.standing import PENDING, READY, SKIPPED, Standing, call_id, is_running, standing

OUT_BYTES = 32 * 1024

Standings = dict[str, Standing]


class PlanMind:
    """Decides by the plan and the state alone; see Mind.

    A failed step lets begun ones come to their end, retries included, and starts only steps whose `if` asks for a
    failure. A question or a pause that nobody needs any more does not keep a failed goal from ending.
    """

    def __init__(self, plan: Plan, jobs: int = 4) -> None:
        if jobs < 1:
            raise Invalid(f"At least one job must be allowed at a time, found {jobs}.")
        self._plan = plan
        self._jobs = jobs
        self._steps = {step.id: step for step in plan.steps}
        self._needs_first = needs_first({step.id: step.needs for step in plan.steps})

    async def decide(self, state: GoalState, now_us: int) -> Decided:
        """See Mind.decide."""
        found = self._standings(state)
        running = sum(is_running(call) for call in state.open_calls.values())
        if any(each.is_aborted for each in found.values()):
            return Decided() if running else Decided(end=_end(found))
        if _is_over(found):
            return Decided(end=_end(found))
        return self._begin(found, self._jobs - running, now_us)

    def environment(self, state: GoalState, call: ToolCall) -> Mapping[str, str]:
        """Return the outputs of the steps that the call's step needs, directly or through others."""
        found = self._standings(state)
        return {
            self._steps[need].out_name: _shortened(_as_text(found[need].output))
            for need in self._all_needs(call.step)
            if found[need].status in {"done", "failed"}
        }

    def _standings(self, state: GoalState) -> Standings:
        found = {step.id: standing(state, step.id, step.retry) for step in self._plan.steps}
        is_failing = any(each.status == "failed" for each in found.values())
        for name in self._needs_first:
            if found[name].status == "pending":
                found[name] = _not_begun(self._steps[name], found, is_failing=is_failing)
        return found

    def _begin(self, found: Standings, free: int, now_us: int) -> Decided:
        """Begin all that is ready, in the order of the file, as far as there are free slots for tools."""
        actions: list[Action] = []
        wakes: list[int] = []
        for step in self._plan.steps:
            each = found[step.id]
            if each.status not in {"ready", "again"}:
                continue
            if each.not_before_us > now_us:
                wakes.append(each.not_before_us)
                continue
            action = _action(step, each.attempt + 1, now_us)
            if isinstance(action, ToolCall):
                if free <= 0:
                    continue
                free -= 1
            actions.append(action)
        return Decided(actions, wake_us=min(wakes, default=None))

    def _all_needs(self, name: str) -> set[str]:
        found: set[str] = set()
        ahead = [name]
        while ahead:
            new = set(self._steps[ahead.pop()].needs) - found
            found |= new
            ahead += new
        return found


def _not_begun(step: PlanStep, found: Standings, *, is_failing: bool) -> Standing:
    """Tell where a step stands that has no calls: each need must have ended `done`, or as the step's `if` says."""
    condition = step.condition
    if is_failing and (condition is None or condition.ending != "failed"):
        return SKIPPED
    for need in step.needs:
        wanted = condition.ending if condition is not None and condition.step == need else "done"
        if found[need].is_settled and found[need].status != wanted:
            return SKIPPED
    return READY if all(found[need].is_settled for need in step.needs) else PENDING


def _is_over(found: Standings) -> bool:
    is_failing = any(each.status == "failed" for each in found.values())
    return all(each.is_settled or (is_failing and _only_waits(each)) for each in found.values())


def _only_waits(each: Standing) -> bool:
    """Say whether a step is an open question or pause."""
    return each.status == "open" and each.last is not None and not isinstance(each.last.call, ToolCall)


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
            moment_us = until_us if until_us is not None else now_us + (seconds or 0) * 1_000_000
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


def _end(found: Standings) -> Termination:
    value = {name: _summary(each) for name, each in found.items()}
    failed = [(name, each) for name, each in found.items() if each.status == "failed"]
    if not failed:
        return Termination("done", value=value)
    name, each = min(failed, key=lambda it: (not it[1].is_aborted, it[1].last.ended_us or 0 if it[1].last else 0))
    return Termination("failed", f"Step {name} failed: {each.why}", value)


def _summary(each: Standing) -> dict[str, Any]:
    exit_code = each.output.get("exit_code") if isinstance(each.output, dict) else None
    return {"status": each.status} | ({} if exit_code is None else {"exit_code": exit_code})


def _as_text(output: Any) -> str:
    match output:
        case {"stdout": str(stdout)}:
            return stdout
        case str():
            return output
        case None:
            return ""
        case _:
            return orjson.dumps(output).decode()


def _shortened(text: str) -> str:
    """Cut a text to what fits, between two characters; no variable can hold a NUL, so these go."""
    return text.replace("\0", "").encode()[:OUT_BYTES].decode(errors="ignore")
