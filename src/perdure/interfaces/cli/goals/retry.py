"""`perdure goal retry`: reopen a failed goal, and run it."""

from functools import partial
from typing import Annotated

import typer

from perdure.app import open_home
from perdure.app.goals.arguments.limits import Limits
from perdure.app.goals.arguments.policies import read_policy
from perdure.app.goals.arguments.run_options import Reopening, RunOptions
from perdure.app.goals.details import detail_of
from perdure.app.goals.values import RunResult, is_of_script
from perdure.app.wire.resources.parameters import GoalFilters
from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.goals.bulk import AllFailed, Yes, change_many, retry_verb, selects_several
from perdure.interfaces.cli.goals.display.hints import next_lines
from perdure.interfaces.cli.goals.display.timeline import headline
from perdure.interfaces.cli.goals.filters import OF_SEVERAL, with_filters
from perdure.interfaces.cli.goals.flags import (
    JOBS,
    Jobs,
    Jsonl,
    Limited,
    MaybeGoal,
    PolicyOfGoal,
    limits_of,
    reject_both,
    with_limits,
)
from perdure.interfaces.cli.goals.run_ui.flows import complete_fork_offers, run_in_its_folder
from perdure.interfaces.cli.goals.run_ui.run_ui import RunUi, Showing, run_goal

Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="The reason of the retry, recorded in the history.")
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="KEY", help="Idempotency key: a second retry with the same key only resumes the goal."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "retry", runs_flows=True, server=True)(retry)


@with_filters(OF_SEVERAL)
@with_limits
async def retry(  # noqa: PLR0913 (each is an option of the command)
    options: Options,
    *,
    limited: Limited,
    filters: GoalFilters,
    goal: MaybeGoal = None,
    all_: AllFailed = False,
    yes: Yes = False,
    reason: Reason = None,
    key: Key = None,
    policy: PolicyOfGoal = None,
    jobs: Jobs = JOBS,
    jsonl: Jsonl = False,
) -> CommandResult:
    """Retry a failed goal, or all failed goals that match the filters: call the failed steps again, and continue.

    Completed steps are not called again. A failed step that may have had its effect is not repeated: the goal waits for
    `perdure goal decide`. A goal whose flow started other steps because of the failure is not retried.
    """
    reject_both(json=options.json, jsonl=jsonl)
    limits, judged_by = limits_of(limited), read_policy(policy)
    if selects_several(goal, filters, is_all=all_) or goal is None:
        if key is not None or jsonl or limits != Limits():
            raise Invalid("--key, --jsonl and limits apply to one goal: pass its id.")
        return await change_many(options, retry_verb(reason, judged_by), filters, yes=yes)
    showing = Showing(options, is_jsonl=jsonl)
    if options.server is not None:
        from perdure.interfaces.cli.remote.runs import require_for_server, retry_at_server

        require_for_server({"--jobs": jobs != JOBS})
        return await retry_at_server(showing, options.server, goal, limits, reason=reason, key=key, policy=policy)
    again = Reopening(reason, limits, key, policy=judged_by)
    only_reopened = await _of_script(options, goal, again)
    if only_reopened is not None:
        return only_reopened

    async def act(ui: RunUi) -> RunResult:
        run_options = ui.run_options(jobs)
        async with open_home(options.settings(), debug=options.verbose) as p:
            reopen = partial(p.goals.retries.reopen, options=run_options, again=again)
            result = await run_in_its_folder(options, p.goals, goal, reopen)
            return await ui.settle_in_place(p.goals, result, run_options)

    return await run_goal(showing, act)


async def _of_script(options: Options, goal: str, again: Reopening) -> CommandResult | None:
    """Reopen a goal whose flow is defined in a script; only that script can run it. None for any other goal."""
    async with open_home(options.settings(), debug=options.verbose) as p:
        found = await p.goals.get(goal)
        if found.summary.mind != "flow" or not is_of_script((await p.goals.state(found.id)).begun.mind):
            return None
        with complete_fork_offers(options):
            result = await p.goals.retries.reopen(found.id, RunOptions(), again)
        shown = await detail_of(p.goals, result.state)
    seen = shown.goal
    return CommandResult(shown.wire(), [f"{headline(seen)}, reopened", *next_lines(options, seen)])
