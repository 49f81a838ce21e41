"""`perdure goal`: list goals, resume one, replay it; the other verbs have modules of their own."""

import time
from pathlib import Path
from typing import Annotated

import typer

from perdure.app import open_home
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.resources.parameters import GoalFilters
from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.goals import decisions, forks, records, retry, show, watch
from perdure.interfaces.cli.goals.display.listing import goal_table
from perdure.interfaces.cli.goals.display.timeline import headline, origin, timeline
from perdure.interfaces.cli.goals.filters import told, with_filters
from perdure.interfaces.cli.goals.flags import (
    BY_HASH,
    JOBS,
    Jobs,
    Jsonl,
    Limited,
    MaybeGoal,
    SeenGoal,
    filled,
    limits_of,
    refuse_both,
    with_limits,
)
from perdure.interfaces.cli.goals.resume_due import resume_due
from perdure.interfaces.cli.goals.run_ui.flows import resume_run
from perdure.interfaces.cli.goals.run_ui.run_ui import Showing, Stage, staged
from perdure.interfaces.cli.output.terminal import columns_of_stdout
from perdure.interfaces.cli.remote.opened import goals_of
from perdure.interfaces.cli.shell_hints import exact
from perdure.kernel.events import Limits
from perdure.kernel.loop import RunResult


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for name in ("list", "ls"):
        command(app, name, server=True)(list_)
    command(app, "replay", server=BY_HASH)(replay)
    command(app, "resume", runs_flows=True, server=True)(resume)
    for module in (show, retry, decisions, forks, records, watch):
        module.register(app)


@with_filters()
async def list_(
    options: Options,
    *,
    filters: GoalFilters,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, metavar="N", help="Maximum number of goals.")] = 50,
) -> Answer:
    """List the newest goals that match all filters."""
    async with goals_of(options) as goal_ports:
        goals = await goal_ports.reader.list(limit=limit, **filters)
    table = goal_table(goals, time.time_ns() // 1000, columns_of_stdout())
    return Answer({"goals": [goal.wire() for goal in goals]}, [table if goals else _none(options, filters)])


def _none(options: Options, filters: GoalFilters) -> str:
    """Say that there is nothing to list, and what to do about it."""
    if filters:
        return f"No goal matches {told(filters)}."
    return f"No goals yet. Start one: {exact(options, 'run', 'echo hello')}"


@with_limits
async def resume(
    options: Options,
    *,
    limited: Limited,
    goal: MaybeGoal = None,
    due: Annotated[bool, typer.Option("--due", help="Resume all goals that slept and are due.")] = False,
    jobs: Jobs = JOBS,
    jsonl: Jsonl = False,
) -> Answer:
    """Resume a goal, with limits raised where they are given. A finished goal is returned unchanged."""
    refuse_both(json=options.json, jsonl=jsonl)
    limits = limits_of(limited)
    if due == (goal is not None) or (due and (jsonl or limits != Limits())):
        raise Invalid("Give the id of a goal, or --due alone.")
    if due and options.server is not None:
        raise Invalid("A server resumes the goals of its home by itself when they are due. Give the id of a goal.")
    if due:
        return await resume_due(options, jobs)
    return await resumed(Showing(options, is_jsonl=jsonl), goal, jobs, limits)


async def resumed(showing: Showing, goal: str | None, jobs: int, limits: Limits, *, yes: bool = False) -> Answer:
    """Resume a goal, or the newest goal of this folder that can continue.

    Raises: what Goals.resume and Goals.newest_open raise.
    """
    filled(goal)
    options = showing.options
    if options.server is not None:
        from perdure.interfaces.cli.remote.runs import require_for_server, resume_at_server

        require_for_server({"--jobs": jobs != JOBS})
        return await resume_at_server(showing, options.server, goal, limits)

    async def act(stage: Stage) -> RunResult:
        async with open_home(options.settings(), debug=options.verbose) as p:
            goal_id = goal or (await p.goals.newest_open(Path.cwd())).summary.goal_id
            run_options = stage.run_options(jobs, yes=yes)
            result = await resume_run(options, p.goals, goal_id, run_options, limits)
            return await stage.settle_in_place(p.goals, result, run_options)

    return await staged(showing, act)


async def replay(options: Options, *, goal: SeenGoal) -> Answer:
    """Fold the history again, checking every event; exit 7 when one was changed or is missing."""
    async with open_home(options.settings(), debug=options.verbose) as p:
        replayed = await p.goals.replay(goal)
        row = (await p.goals.get(replayed.state.goal_id)).summary
    state = replayed.state
    seen = GoalView.of_state(state, row=row)
    said = f"{state.head.seq} events are as they were written."
    return Answer(
        {**seen.wire(), "state_hash": replayed.state_hash},
        [headline(seen), *origin(state), timeline(state), said, f"State hash: {replayed.state_hash}"],
    )
