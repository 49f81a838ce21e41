"""`perdure run`: run a text for a model, a command, a plan file or a flow as a goal that survives."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from perdure.app import open_ephemeral, open_home
from perdure.app.goals.arguments.limits import Limits
from perdure.app.goals.arguments.policies import read_policy
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import NewGoal
from perdure.app.goals.values import RunResult
from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.completion import complete_tags
from perdure.interfaces.cli.goals.flags import (
    JOBS,
    WHAT_PRESETS_ALLOW,
    Jobs,
    Jsonl,
    Limited,
    Model,
    limits_of,
    reject_both,
    require_id,
    with_limits,
)
from perdure.interfaces.cli.goals.goal import list_, resume_goal
from perdure.interfaces.cli.goals.run_ui.flows import complete_fork_offers
from perdure.interfaces.cli.goals.run_ui.run_arguments import RunArguments
from perdure.interfaces.cli.goals.run_ui.run_ui import RunUi, Showing, run_goal
from perdure.interfaces.cli.logs import keep_no_log
from perdure.interfaces.cli.shell_hints import exact


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "run", runs_flows=True, server=True)(run)


Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="TEXT", help="A task for a model, in quotes. After -- : a command with its arguments."),
]
Bot = Annotated[str | None, typer.Option("--bot", metavar="SLUG", help="The bot for the task (default: none).")]
Shell = Annotated[str | None, typer.Option("--shell", metavar="LINE", help="A command line for sh.")]
Plan = Annotated[Path | None, typer.Option("--plan", metavar="FILE", help="A plan file to run.")]
FlowPath = Annotated[
    str | None,
    typer.Option(
        "--flow",
        metavar="MODULE:FUNCTION",
        help="A flow to run, or its name if --import names its module. A module in the current folder takes"
        " precedence over the Python path; --resume uses the same folder.",
    ),
]
Args = Annotated[
    str | None,
    typer.Option("--args", metavar="JSON", help="With --flow: a list of arguments, or an object of keyword arguments."),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help="Start key: rerunning with the same key resumes that goal, or prints its result.",
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        metavar="TAG",
        help="A tag of the new goal, for filters; may be repeated up to 20 times.",
        autocompletion=complete_tags,
    ),
]
ResumeGoal = Annotated[
    str | None,
    typer.Option("--resume", metavar="ID", help="Resume the goal with this whole id, or with key:KEY."),
]
Continue = Annotated[
    bool, typer.Option("--continue", help="Resume the newest goal of this folder that is interrupted or waits.")
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="PRESET",
        help=f"The policy for calls of a model (default: setting policy.preset). {WHAT_PRESETS_ALLOW}",
    ),
]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        help="Approve the calls of a model that its policy asks about, except exec and write_file. Commands, plans and"
        " flows need no approval.",
    ),
]
Ephemeral = Annotated[
    bool, typer.Option("--ephemeral", help="Run in memory: no history, no log, no home; it cannot be resumed.")
]


@with_limits
async def run(  # noqa: PLR0913 (each is an option of the command)
    options: Options,
    *,
    limited: Limited,
    context: typer.Context,
    words: Words = None,
    bot: Bot = None,
    model: Model = None,
    shell: Shell = None,
    plan: Plan = None,
    flow: FlowPath = None,
    args: Args = None,
    key: Key = None,
    tag: Tags = None,
    resume: ResumeGoal = None,
    continue_: Continue = False,
    list_goals: Annotated[bool, typer.Option("--list", help="List the newest goals.")] = False,
    jobs: Jobs = JOBS,
    policy: Policy = None,
    yes: Yes = False,
    ephemeral: Ephemeral = False,
    jsonl: Jsonl = False,
) -> CommandResult:
    """Run a task for a model, a command, a plan or a flow as a durable goal, which --resume continues after a crash.

    Standard output has the outputs of tools as soon as they are recorded, and the result of a flow or a model. On a
    terminal, control characters are escaped, and questions are asked in place, unless --no-input is used.
    """
    if ephemeral:
        keep_no_log()
    limits = limits_of(limited)
    wanted = RunArguments(
        *(_one_text(options, words), context.obj, shell, plan, flow, args, key, resume, bot, model),
        is_continued=continue_,
        is_list=list_goals,
        tags=tag or (),
        policy=policy,
    )
    wanted.require_valid(options, ephemeral=ephemeral, is_limited=limits != Limits(), jsonl=jsonl)
    reject_both(json=options.json, jsonl=jsonl)
    if list_goals:
        return await list_(options)
    showing = Showing(options, is_jsonl=jsonl, is_kept=not ephemeral)
    if options.server is not None:
        of_here = {"--ephemeral": ephemeral, "--continue": continue_, "--jobs": jobs != JOBS, "--yes": yes}
        return await _at_server(showing, options.server, wanted, limits, of_here)
    if resume is not None or continue_:
        return await resume_goal(showing, resume, jobs, limits, yes=yes, model=model)
    return await _begin(showing, _maker(options, wanted, limits), jobs, yes=yes)


def _one_text(options: Options, words: Sequence[str] | None) -> str | None:
    """Return the text for a model.

    Raises: Invalid when there are several: quotes are missing, or a command was meant.
    """
    if not words:
        return None
    if len(words) > 1:
        as_command = exact(options, "run", "--", *words)
        raise Invalid(f"Expected one text for a model, in quotes, got {len(words)}. To run a command: {as_command}")
    return words[0]


def _maker(options: Options, wanted: RunArguments, limits: Limits) -> Callable[[Goals], Awaitable[NewGoal]]:
    """Return a function that creates the requested goal.

    Raises: Invalid when there is no such policy.
    """
    imports = options.settings().imports if wanted.flow is not None else ()
    tags, judged_by = tuple(wanted.tags), read_policy(wanted.policy)

    async def make(goals: Goals) -> NewGoal:
        new = await wanted.new(goals, imports, limits)
        return replace(new, key=wanted.key, tags=tags, policy=judged_by)

    return make


async def _at_server(
    showing: Showing, url: str, wanted: RunArguments, limits: Limits, of_here: Mapping[str, bool]
) -> CommandResult:
    """Start or resume a goal at a server, and follow it; `of_here` maps local options to whether they are set."""
    from perdure.interfaces.cli.remote.runs import require_for_server, resume_at_server, start_at_server

    require_for_server(of_here)
    if wanted.resume is not None:
        return await resume_at_server(showing, url, require_id(wanted.resume), limits, model=wanted.model)
    return await start_at_server(showing, url, wanted, limits)


async def _begin(
    showing: Showing, make: Callable[[Goals], Awaitable[NewGoal]], jobs: int, *, yes: bool
) -> CommandResult:
    """Start a goal in the home, or in memory only."""
    options = showing.options

    async def act(ui: RunUi) -> RunResult:
        run_options = ui.run_options(jobs, yes=yes)
        if not showing.is_kept:
            async with open_ephemeral() as goals:
                result = await goals.begin(await make(goals), run_options)
                return await ui.settle_in_place(goals, result, run_options)
        async with open_home(options.settings(), debug=options.verbose) as p:
            with complete_fork_offers(options):
                result = await p.goals.begin_once(await make(p.goals), run_options)
            return await ui.settle_in_place(p.goals, result, run_options)

    return await run_goal(showing, act)
