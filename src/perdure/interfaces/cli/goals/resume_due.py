"""`perdure goal resume --due`: go on with all goals that slept and are due."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure.app import open_home
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.wire.goal_view import GoalView
from perdure.errors import Conflict, NotFound, PerdureError, Waiting
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import Answer, Table
from perdure.interfaces.cli.goals.run_ui.flows import resume_run
from perdure.interfaces.cli.goals.run_ui.interrupts import INTERRUPTED, Interrupts
from perdure.interfaces.cli.goals.run_ui.writer import Writer, leave
from perdure.interfaces.cli.output.terminal import one_line
from perdure.interfaces.cli.shell_hints import exact
from perdure.kernel.calls.holding import is_held
from perdure.kernel.loop import Loop, RunResult
from perdure.minds.flow.scripts import is_of_script, run_again

_AT_ONCE = 50
_PATIENCE_S = 1.0
TAKEN = "another process resumes it"


@dataclass(frozen=True)
class Told:
    """A goal that was due, what is to be said of it, and whether something is wrong."""

    goal: GoalView
    why: str
    is_bad: bool = False
    is_held: bool = False


async def resume_due(options: Options, jobs: int) -> Answer:
    """Resume all goals that are due, side by side.

    Exit 1 when one of them failed or could not be resumed, else 5 when one was put on hold.
    """
    said = Writer()

    def leave_now(exit_code: int) -> None:
        said.err(f"Interrupted. Go on: {exact(options, 'goal', 'resume', '--due')}\n")
        leave(exit_code, said, _PATIENCE_S)

    with Interrupts(lambda line: said.err(f"{line}\n"), leave_now) as interrupts:
        async with open_home(options.settings(), debug=options.verbose) as p:
            told = await _Waking(p.goals, options, jobs, interrupts).all_due()
    rows = [[one.goal.summary.goal_id, one.goal.status, one_line(one.why)] for one in told]
    parts: list[str | Table] = (
        [Table(["goal", "status", "why"], rows, whole=("goal",))] if rows else ["No goal is due."]
    )
    exit_code = INTERRUPTED if interrupts.count else _exit_code(told)
    return Answer({"goals": [one.goal.wire() for one in told]}, parts, exit_code=exit_code)


def _exit_code(told: Sequence[Told]) -> int:
    if any(one.is_bad for one in told):
        return 1
    return Waiting.exit_code if any(one.is_held for one in told) else 0


@dataclass(frozen=True)
class _Waking:
    """How goals are gone on with."""

    goals: Goals
    options: Options
    jobs: int
    interrupts: Interrupts

    async def all_due(self) -> list[Told]:
        """Resume every goal that is due, a bounded number at once; the failure of one does not affect the others."""
        told: dict[str, Told] = {}
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(view: GoalView) -> None:
            try:
                told[view.summary.goal_id] = await self._gone_on(view)
            finally:
                slots.release()

        async with asyncio.TaskGroup() as group:
            async for view in self.goals.each_due():
                goal_id = view.summary.goal_id
                try:
                    why_not = await self._why_not(view)
                except PerdureError as error:  # a damaged goal keeps no other from going on
                    told[goal_id] = Told(view, error.detail, is_bad=True)
                    continue
                told[goal_id] = Told(view, why_not or TAKEN)
                if why_not is None and not view.is_running:
                    await slots.acquire()
                    group.create_task(one(view))
        return list(told.values())

    async def _why_not(self, view: GoalView) -> str | None:
        goal = view.summary
        if self.interrupts.count:
            return "interrupted before it was begun"
        if goal.mind == "flow" and is_of_script((begun := (await self.goals.state(goal.goal_id)).begun).mind):
            return run_again(begun)
        if goal.mind == "flow" and goal.workdir != str(Path.cwd()):
            return f"its code is in {goal.workdir}; there: {exact(self.options, 'goal', 'resume', '--due')}"
        return None

    async def _gone_on(self, view: GoalView) -> Told:
        """Go on with one goal."""
        begun: list[Loop] = []

        def watch(loop: Loop) -> None:
            begun.append(loop)
            self.interrupts.stops(loop)

        run_options = RunOptions(self.jobs, watch=watch, is_woken=True, is_automatic=True, parks_for_person=True)
        try:
            result = await resume_run(self.options, self.goals, view.summary.goal_id, run_options)
        except (Conflict, NotFound) as error:
            now = await _looked_at(self.goals, view)
            return Told(view, error.detail, is_bad=True) if now is None else Told(now, TAKEN)
        except PerdureError as error:
            return Told(view, error.detail, is_bad=True)
        now = GoalView.of_state(result.state, queue=result.queue)
        if is_held(result.state):
            resume = exact(self.options, "goal", "resume", now.id)
            return Told(now, f"{now.detail} Find the cause, then: {resume}", is_held=True)
        return Told(now, _why(result), is_bad=now.is_final and now.status != "done") if begun else Told(now, TAKEN)


def _why(result: RunResult) -> str:
    ended = result.state.termination
    if ended is not None:
        return ended.detail or ended.reason
    return "interrupted" if result.outcome == "interrupted" else f"waits for {result.state.waiting_for}"


async def _looked_at(goals: Goals, before: GoalView) -> GoalView | None:
    """Return a goal that another process has claimed meanwhile: losing that race is not a failure."""
    try:
        now = await goals.find(before.summary.goal_id)
    except NotFound:
        return before
    was, is_ = before.summary, now.summary
    has_moved = (is_.last_seq, is_.due_us) != (was.last_seq, was.due_us)
    return now if now.is_running or has_moved else None
