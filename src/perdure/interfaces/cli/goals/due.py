"""`perdure goal resume --due`: go on with all goals that slept and are due."""

import asyncio
from pathlib import Path
from typing import Any

from perdure.app import open_home
from perdure.app.goals import Goals
from perdure.app.runner import Manner
from perdure.app.views import GoalView
from perdure.errors import Conflict, PerdureError
from perdure.interfaces.cli.answer import Answer, Table
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.goals.flows import go_on
from perdure.interfaces.cli.goals.hints import exact
from perdure.interfaces.cli.terminal import one_line
from perdure.minds.scripts import is_of_script, run_again


async def resume_due(options: Options, jobs: int) -> Answer:
    """Go on with all goals that are due, side by side; exit 1 when one of them failed or could not go on.

    One that somebody else goes on with meanwhile, as two runs of cron that overlap would, is no failure.
    """
    async with open_home(options.settings(), debug=options.verbose) as p:
        due = await p.goals.due()
        told = await asyncio.gather(*[_gone_on(p.goals, view, jobs, options) for view in due])
    rows = [[goal["id"], goal["status"], one_line(why)] for goal, why, _ in told]
    parts: list[str | Table] = (
        [Table(["goal", "status", "why"], rows, whole=("goal",))] if rows else ["No goal is due."]
    )
    return Answer({"goals": [goal for goal, _, _ in told]}, parts, exit_code=int(any(bad for _, _, bad in told)))


async def _gone_on(goals: Goals, view: GoalView, jobs: int, options: Options) -> tuple[dict[str, Any], str, bool]:
    """Go on with one goal; return it, what is to be said of it, and whether something is wrong."""
    goal = view.summary
    if goal.mind == "flow" and is_of_script((begun := (await goals.state(goal.goal_id)).begun).mind):
        return view.wire(), run_again(begun), False
    if goal.mind == "flow" and goal.workdir != str(Path.cwd()):
        return view.wire(), f"its code is in {goal.workdir}; there: {exact(options, 'goal', 'resume', '--due')}", False
    try:
        ran = await go_on(options, goals, goal.goal_id, Manner(jobs))
    except PerdureError as error:
        now = await goals.find(goal.goal_id)
        has_moved = now.is_running or now.summary.last_seq > goal.last_seq
        if isinstance(error, Conflict) and has_moved:
            return now.wire(), "another worker goes on with it", False
        return now.wire(), error.detail, True
    now = GoalView.of_state(ran.state)
    ended = ran.state.termination
    why = (ended.detail or ended.reason) if ended else f"waits for {now.summary.waiting_for}"
    return now.wire(), why, now.status == "stopped"
