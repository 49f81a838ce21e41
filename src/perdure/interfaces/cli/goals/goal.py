"""`perdure goal`: list goals, look at one, go on with it, replay it; the other verbs have modules of their own."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from perdure.app import open_home
from perdure.app.goals import Goals
from perdure.app.runner import Manner
from perdure.app.views import GoalStatus, GoalView
from perdure.errors import Damaged, Invalid
from perdure.interfaces.cli.answer import Answer, Table
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.exact import exact
from perdure.interfaces.cli.goals import forks, records, settle, watch
from perdure.interfaces.cli.goals.flags import (
    BudgetUsd,
    Jobs,
    Jsonl,
    MaxIterations,
    MaxTokens,
    MaybeGoal,
    SeenGoal,
    Timeout,
    filled,
    limits_of,
    refuse_both,
)
from perdure.interfaces.cli.goals.flows import go_on
from perdure.interfaces.cli.goals.hints import next_commands
from perdure.interfaces.cli.goals.outputs import output_of
from perdure.interfaces.cli.goals.stage import Showing, Stage, staged
from perdure.interfaces.cli.goals.timeline import (
    call_object,
    details,
    headline,
    not_begun,
    origin,
    pending_line,
    pending_object,
    timeline,
)
from perdure.interfaces.cli.terminal import one_line
from perdure.kernel.events import Event, Limits
from perdure.kernel.fold import fold
from perdure.kernel.loop import Ran
from perdure.kernel.replay import require_unchanged

StatusName = Literal["running", "interrupted", "waiting", "done", "failed", "cancelled"]
_PAGE = 200
_TEXT_WIDTH = 48


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for name, fn in (("list", list_), ("ls", list_), ("show", show), ("resume", resume), ("replay", replay)):
        command(app, name)(fn)
    for module in (settle, forks, records, watch):
        module.register(app)


async def list_(
    options: Options,
    *,
    status: Annotated[
        StatusName | None,
        typer.Option(
            "--status",
            metavar="STATUS",
            help="Only goals that are running, interrupted, waiting, done, failed or cancelled.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, metavar="N", help="How many.")] = 50,
) -> Answer:
    """List the newest goals."""
    async with open_home(options.settings(), debug=options.verbose) as p:
        goals = await _newest(p.goals, status, limit)
    rows = [
        [
            goal.summary.goal_id,
            goal.status,
            goal.summary.reason or goal.summary.waiting_for or "",
            str(goal.summary.steps),
            _shortened(goal.summary.text),
        ]
        for goal in goals
    ]
    table = Table(["goal", "status", "why", "steps", "text"], rows, whole=("goal",))
    return Answer({"goals": [goal.wire() for goal in goals]}, [table if rows else _none(options, status)])


def _none(options: Options, status: GoalStatus | None) -> str:
    """Say that there is nothing to list, and what to do about it."""
    if status is not None:
        return f"No goal is {status}."
    return f"No goals yet. Start one: {exact(options, 'run', 'echo hello')}"


async def _newest(goals: Goals, status: GoalStatus | None, limit: int) -> list[GoalView]:
    """Return the newest goals of a status."""
    match status:
        case "running" | "interrupted":
            return await _newest_open(goals, status, limit)
        case _:
            return list(await goals.list(limit=limit, status=status))


async def _newest_open(goals: Goals, status: GoalStatus, limit: int) -> list[GoalView]:
    """Tell the running from the interrupted, page by page."""
    found: list[GoalView] = []
    before = None
    while len(found) < limit and (page := await goals.list(limit=_PAGE, status="open", before=before)):
        found += [goal for goal in page if goal.status == status]
        before = page[-1].summary.goal_id
    return found[:limit]


def _shortened(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _TEXT_WIDTH else line[: _TEXT_WIDTH - 1] + "…"


async def show(
    options: Options,
    *,
    goal: SeenGoal,
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="STEP", help="Print only what this step, or call, gave.", callback=filled),
    ] = None,
) -> Answer:
    """Show the steps of a goal, what was asked of it and not yet taken, and how to go on."""
    if output is not None:
        return await output_of(options, goal, output)
    async with open_home(options.settings(), debug=options.verbose) as p:
        found = await p.goals.find(goal)
        events = await p.goals.history(found.id)
        pending = await p.goals.pending(found.summary.goal_id)
    damage = _damage(events, found.id)
    state = fold(events)
    seen = GoalView.of_state(state, is_running=found.is_running)
    data = {
        **seen.wire(),
        **details(state),
        "key": found.summary.start_key,
        "calls": [call_object(call) for call in state.calls.values()],
        "not_begun": [{"step": step, "state": said} for step, said in not_begun(state).items()],
        "pending": [pending_object(row) for row in pending],
    }
    now_us = time.time_ns() // 1000 if seen.is_running else None
    parts: list[str | Table] = [headline(seen), *origin(state), one_line(state.begun.text)]
    if state.termination is not None and state.termination.detail:
        parts.append(one_line(state.termination.detail))
    if found.summary.start_key is not None:
        parts.append(one_line(f"Its key is {found.summary.start_key!r}."))
    is_over = state.termination is not None
    parts += [timeline(state, now_us=now_us), *(pending_line(row, is_over=is_over) for row in pending)]
    if damage is not None:  # no command but those that the damage names can continue it
        return Answer(data, parts, exit_code=damage.exit_code, fault=damage.detail)
    return Answer(data, [*parts, *next_commands(options, state, is_running=seen.is_running)])


def _damage(events: Sequence[Event], goal_id: str) -> Damaged | None:
    """Return what is wrong with a history, which is shown as far as it can be read."""
    try:
        require_unchanged(events, goal_id)
    except Damaged as error:
        return error
    return None


async def resume(  # noqa: PLR0913 (each is an option of the command)
    options: Options,
    *,
    goal: MaybeGoal = None,
    due: Annotated[bool, typer.Option("--due", help="Go on with all goals that slept and are due.")] = False,
    jobs: Jobs = 4,
    max_iterations: MaxIterations = None,
    max_tokens: MaxTokens = None,
    budget_usd: BudgetUsd = None,
    time_limit: Timeout = None,
    jsonl: Jsonl = False,
) -> Answer:
    """Go on with a goal, with limits raised where they are given; one that has ended is left as it is."""
    refuse_both(json=options.json, jsonl=jsonl)
    limits = limits_of(max_iterations, max_tokens, budget_usd, time_limit)
    if due == (goal is not None) or (due and (jsonl or limits != Limits())):
        raise Invalid("Give the id of a goal, or --due alone.")
    if due:
        from perdure.interfaces.cli.goals.due import resume_due

        return await resume_due(options, jobs)
    return await resumed(Showing(options, is_jsonl=jsonl), goal, jobs, limits)


async def resumed(showing: Showing, goal: str | None, jobs: int, limits: Limits) -> Answer:
    """Go on with a goal, or with the newest of this folder that can go on.

    Raises: what Goals.resume and Goals.newest_open raise.
    """
    filled(goal)
    options = showing.options

    async def act(stage: Stage) -> Ran:
        async with open_home(options.settings(), debug=options.verbose) as p:
            goal_id = goal or (await p.goals.newest_open(Path.cwd())).summary.goal_id
            manner = Manner(jobs, watch=stage.watch, tell=stage.say)
            ran = await go_on(options, p.goals, goal_id, manner, limits)
            return await stage.settle_in_place(p.goals, ran, manner)

    return await staged(showing, act)


async def replay(options: Options, *, goal: SeenGoal) -> Answer:
    """Fold the history again, checking every event; exit 7 when one was changed or is missing."""
    async with open_home(options.settings(), debug=options.verbose) as p:
        replayed = await p.goals.replay(goal)
    state = replayed.state
    seen = GoalView.of_state(state)
    said = f"{state.tip.seq} events are as they were written."
    return Answer(
        {**seen.wire(), "state_hash": replayed.state_hash},
        [headline(seen), *origin(state), timeline(state), said, f"State hash: {replayed.state_hash}"],
    )
