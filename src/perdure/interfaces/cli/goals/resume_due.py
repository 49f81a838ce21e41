"""`perdure goal resume --due`: resumes all sleeping goals that are due."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure.app import open_home
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.goals.values import Loop, RunResult, is_of_script, run_again
from perdure.app.wire.goal_view import GoalView
from perdure.errors import Conflict, NotFound, PerdureError, Waiting
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import CommandResult, Table
from perdure.interfaces.cli.goals.run_ui.flows import resume_run
from perdure.interfaces.cli.goals.run_ui.interrupts import INTERRUPTED, Interrupts
from perdure.interfaces.cli.goals.run_ui.writer import Writer, leave
from perdure.interfaces.cli.output.terminal import one_line
from perdure.interfaces.cli.shell_hints import exact

_AT_ONCE = 50
_PATIENCE_S = 1.0
TAKEN = "another process resumes it"


@dataclass(frozen=True)
class DueGoal:
    """The result for a goal that was due; `is_bad` is set if it failed or could not be resumed."""

    goal: GoalView
    why: str
    is_bad: bool = False
    is_held: bool = False


async def resume_due(options: Options, jobs: int) -> CommandResult:
    """Resume all goals that are due, in parallel.

    Exit 1 when one of them failed or could not be resumed, else 5 when one was put on hold.
    """
    writer = Writer()

    def leave_now(exit_code: int) -> None:
        writer.err(f"Interrupted. Resume with: {exact(options, 'goal', 'resume', '--due')}\n")
        leave(exit_code, writer, _PATIENCE_S)

    with Interrupts(lambda line: writer.err(f"{line}\n"), leave_now) as interrupts:
        async with open_home(options.settings(), debug=options.verbose) as p:
            results = await _Resuming(p.goals, options, jobs, interrupts).all_due()
    rows = [[result.goal.summary.goal_id, result.goal.status, one_line(result.why)] for result in results]
    parts: list[str | Table] = (
        [Table(["goal", "status", "why"], rows, whole=("goal",))] if rows else ["No goal is due."]
    )
    exit_code = INTERRUPTED if interrupts.count else _exit_code(results)
    return CommandResult({"goals": [result.goal.wire() for result in results]}, parts, exit_code=exit_code)


def _exit_code(results: Sequence[DueGoal]) -> int:
    if any(result.is_bad for result in results):
        return 1
    return Waiting.exit_code if any(result.is_held for result in results) else 0


@dataclass(frozen=True)
class _Resuming:
    """Resumes due goals in this process."""

    goals: Goals
    options: Options
    jobs: int
    interrupts: Interrupts

    async def all_due(self) -> list[DueGoal]:
        """Resume every goal that is due, a bounded number at once; the failure of one does not affect the others."""
        results: dict[str, DueGoal] = {}
        slots = asyncio.Semaphore(_AT_ONCE)

        async def result(view: GoalView) -> None:
            try:
                results[view.summary.goal_id] = await self._resume(view)
            finally:
                slots.release()

        async with asyncio.TaskGroup() as group:
            async for view in self.goals.each_due():
                goal_id = view.summary.goal_id
                try:
                    why_not = await self._reason_to_skip(view)
                except PerdureError as error:  # a damaged goal does not prevent others from being resumed
                    results[goal_id] = DueGoal(view, error.detail, is_bad=True)
                    continue
                results[goal_id] = DueGoal(view, why_not or TAKEN)
                if why_not is None and not view.is_running:
                    await slots.acquire()
                    group.create_task(result(view))
        return list(results.values())

    async def _reason_to_skip(self, view: GoalView) -> str | None:
        goal = view.summary
        if self.interrupts.count:
            return "interrupted before it was resumed"
        if goal.mind == "flow" and is_of_script((begun := (await self.goals.state(goal.goal_id)).begun).mind):
            return run_again(begun)
        if goal.mind == "flow" and goal.workdir != str(Path.cwd()):
            return f"its code is in {goal.workdir}; there: {exact(self.options, 'goal', 'resume', '--due')}"
        return None

    async def _resume(self, view: GoalView) -> DueGoal:
        """Resume one goal."""
        begun: list[Loop] = []

        def watch(loop: Loop) -> None:
            begun.append(loop)
            self.interrupts.watch(loop)

        run_options = RunOptions(self.jobs, watch=watch, is_woken=True, is_automatic=True, parks_for_person=True)
        try:
            result = await resume_run(self.options, self.goals, view.summary.goal_id, run_options)
        except (Conflict, NotFound) as error:
            now = await _claimed_elsewhere(self.goals, view)
            return DueGoal(view, error.detail, is_bad=True) if now is None else DueGoal(now, TAKEN)
        except PerdureError as error:
            return DueGoal(view, error.detail, is_bad=True)
        now = GoalView.of_state(result.state, queue=result.queue, start_key=result.start_key)
        if now.summary.waiting_for == "hold":
            resume = exact(self.options, "goal", "resume", now.id)
            return DueGoal(now, f"{now.detail} Find the cause, then: {resume}", is_held=True)
        return (
            DueGoal(now, _why(result), is_bad=now.is_final and now.status != "done") if begun else DueGoal(now, TAKEN)
        )


def _why(result: RunResult) -> str:
    ended = result.state.termination
    if ended is not None:
        return ended.detail or ended.reason
    return "interrupted" if result.outcome == "interrupted" else f"waits for {result.state.waiting_for}"


async def _claimed_elsewhere(goals: Goals, before: GoalView) -> GoalView | None:
    """Return the goal if another process has claimed it meanwhile, which is not a failure; else None."""
    try:
        now = await goals.find(before.summary.goal_id)
    except NotFound:
        return before
    was, is_ = before.summary, now.summary
    has_moved = (is_.last_seq, is_.due_us) != (was.last_seq, was.due_us)
    return now if now.is_running or has_moved else None
