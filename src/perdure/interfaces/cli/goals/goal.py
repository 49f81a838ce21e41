"""`perdure goal list | resume | replay`; registers the modules of the other verbs."""

import time
from pathlib import Path
from typing import Annotated

import typer

from perdure.app import open_home
from perdure.app.goals.arguments.limits import Limits
from perdure.app.goals.values import RunResult
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.resources.parameters import GoalFilters
from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.goals import decisions, forks, records, retry, show, watch
from perdure.interfaces.cli.goals.display.listing import goal_table
from perdure.interfaces.cli.goals.display.timeline import headline, origin, timeline
from perdure.interfaces.cli.goals.filters import filter_text, with_filters
from perdure.interfaces.cli.goals.flags import (
    BY_HASH,
    JOBS,
    Jobs,
    Jsonl,
    Limited,
    MaybeGoal,
    Model,
    SeenGoal,
    limits_of,
    reject_both,
    require_id,
    with_limits,
)
from perdure.interfaces.cli.goals.resume_due import resume_due
from perdure.interfaces.cli.goals.run_ui.flows import resume_run
from perdure.interfaces.cli.goals.run_ui.run_ui import RunUi, Showing, run_goal
from perdure.interfaces.cli.output.terminal import columns_of_stdout
from perdure.interfaces.cli.remote.opened import goals_of
from perdure.interfaces.cli.shell_hints import exact


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
) -> CommandResult:
    """List the newest goals that match all filters."""
    async with goals_of(options) as goal_ports:
        goals = await goal_ports.reader.list(limit=limit, **filters)
    table = goal_table(goals, time.time_ns() // 1000, columns_of_stdout())
    return CommandResult({"goals": [goal.wire() for goal in goals]}, [table if goals else _none(options, filters)])


def _none(options: Options, filters: GoalFilters) -> str:
    """Return a note for an empty list, with the next command."""
    if filters:
        return f"No goal matches {filter_text(filters)}."
    return f"No goals yet. Start one: {exact(options, 'run', '--', 'echo', 'hello')}"


@with_limits
async def resume(  # noqa: PLR0913 (each is an option of the command)
    options: Options,
    *,
    limited: Limited,
    goal: MaybeGoal = None,
    due: Annotated[bool, typer.Option("--due", help="Resume all sleeping goals that are due.")] = False,
    model: Model = None,
    jobs: Jobs = JOBS,
    jsonl: Jsonl = False,
) -> CommandResult:
    """Resume a goal, with higher limits or another model if specified. A finished goal is returned unchanged."""
    reject_both(json=options.json, jsonl=jsonl)
    limits = limits_of(limited)
    if due == (goal is not None) or (due and (jsonl or model is not None or limits != Limits())):
        raise Invalid("Pass the id of a goal, or only --due.")
    if due and options.server is not None:
        raise Invalid("A server resumes due goals by itself. Pass the id of a goal.")
    if due:
        return await resume_due(options, jobs)
    return await resume_goal(Showing(options, is_jsonl=jsonl), goal, jobs, limits, model=model)


async def resume_goal(
    showing: Showing, goal: str | None, jobs: int, limits: Limits, *, yes: bool = False, model: str | None = None
) -> CommandResult:
    """Resume a goal, or the newest goal of this folder that can continue; `model` is asked from then on.

    Raises: the errors of Goals.resume and Goals.newest_open.
    """
    require_id(goal)
    options = showing.options
    if options.server is not None:
        from perdure.interfaces.cli.remote.runs import require_for_server, resume_at_server

        require_for_server({"--jobs": jobs != JOBS})
        return await resume_at_server(showing, options.server, goal, limits, model=model)

    async def act(ui: RunUi) -> RunResult:
        async with open_home(options.settings(), debug=options.verbose) as p:
            goal_id = goal or (await p.goals.newest_open(Path.cwd())).summary.goal_id
            run_options = ui.run_options(jobs, yes=yes, model=model)
            result = await resume_run(options, p.goals, goal_id, run_options, limits)
            return await ui.settle_in_place(p.goals, result, run_options)

    return await run_goal(showing, act)


async def replay(options: Options, *, goal: SeenGoal) -> CommandResult:
    """Check the hash of every event and rebuild the state; runs no code.

    Exit 7 if an event was changed or is missing.
    """
    async with open_home(options.settings(), debug=options.verbose) as p:
        replayed = await p.goals.replay(goal)
        row = (await p.goals.get(replayed.state.goal_id)).summary
    state = replayed.state
    seen = GoalView.of_state(state, row=row)
    verified = f"{state.head.seq} events are unchanged."
    return CommandResult(
        {**seen.wire(), "state_hash": replayed.state_hash},
        [headline(seen), *origin(state), timeline(state), verified, f"State hash: {replayed.state_hash}"],
    )
