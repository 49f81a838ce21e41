"""`perdure goal cancel | approve | deny | answer | decide | signal`: record a decision, and resume with --resume."""

import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated

import typer

from perdure.app.goals.arguments.limits import Limits
from perdure.app.goals.goals import Goals
from perdure.app.goals.updates.decisions import TooLate, choose
from perdure.app.goals.updates.posts import CLEANING_UP
from perdure.app.goals.values import CallState, GoalState, RunResult, ToolCall, is_of_script, run_again
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.next_commands import DECISIONS
from perdure.app.wire.resources.parameters import GoalFilters
from perdure.app.wire.shown import shown_sha256
from perdure.errors import Conflict, Denied, Invalid, PerdureError
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.completion import complete_calls
from perdure.interfaces.cli.confirm import ask_yes_no, can_ask
from perdure.interfaces.cli.goals.bulk import AllUnfinished, Yes, cancel_verb, change_many, selects_several
from perdure.interfaces.cli.goals.display.hints import call_text, next_lines, pasteable_command
from perdure.interfaces.cli.goals.display.timeline import headline
from perdure.interfaces.cli.goals.filters import OF_SEVERAL, with_filters
from perdure.interfaces.cli.goals.flags import Goal, MaybeGoal, Resume, require_id
from perdure.interfaces.cli.goals.run_ui.flows import (
    in_folder_of,
    read_json_option,
    redirect_prints,
    require_code,
    resume_run,
)
from perdure.interfaces.cli.goals.run_ui.run_ui import RunUi, Showing, run_goal
from perdure.interfaces.cli.output.terminal import one_line
from perdure.interfaces.cli.remote.opened import goals_of
from perdure.interfaces.cli.remote.ports.goals import GoalPorts
from perdure.interfaces.cli.shell_hints import exact

Act = Callable[[GoalPorts], Awaitable[GoalView]]
AnyCall = Annotated[
    str | None,
    typer.Argument(
        metavar="CALL",
        help="The call; optional if only one is possible.",
        callback=require_id,
        autocompletion=complete_calls,
    ),
]

Reason = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="The reason of the cancellation, recorded in the history."),
]
Now = Annotated[bool, typer.Option("--now", help="Cancel without running the cleanup of the flow.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, "cancel", server=True)(cancel)
    for fn in (approve, deny, answer, decide, signal_):
        command(app, fn.__name__.rstrip("_"), runs_flows=True, server=True)(fn)


@with_filters(OF_SEVERAL)
async def cancel(  # noqa: PLR0913 (each is an option of the command)
    options: Options,
    *,
    filters: GoalFilters,
    goal: MaybeGoal = None,
    all_: AllUnfinished = False,
    yes: Yes = False,
    reason: Reason = None,
    now: Now = False,
) -> CommandResult:
    """Cancel a goal, or all goals that match the filters, and wait until each has ended.

    The worker of a goal ends its running steps. A flow with cleanup first runs its `finally` blocks, in this process
    if no worker runs the goal; --now ends it without them. Several goals need a confirmation.
    """
    if selects_several(goal, filters, is_all=all_) or goal is None:
        return await change_many(options, cancel_verb(reason, now=now), filters, yes=yes)
    async with goals_of(options) as goals:
        found = await goals.reader.get(goal)
        with _in_folder_of(options, found), redirect_prints(is_needed=options.json):
            seen = await goals.steering.cancel(found.id, reason=reason, now=now)
        following = [] if seen.is_final or seen.is_running else next_lines(options, await goals.reader.look_into(seen))
    if seen.is_final and seen.status != "cancelled":
        raise Conflict(f"{seen.id} ended before it could be cancelled: {seen.status}.")
    said = f"{seen.id} is cancelled." if seen.is_final else _pending_note(seen)
    return CommandResult(seen.wire(), [said, *following], exit_code=int(bool(following)))


def _pending_note(goal: GoalView) -> str:
    """Return why a cancelled goal has not ended yet."""
    if not goal.is_running:
        return f"{goal.id}: {goal.note or CLEANING_UP}"
    return f"The cancel is stored for the worker of {goal.id}, which has not ended the goal yet."


async def approve(
    options: Options,
    *,
    goal: Goal,
    call: AnyCall = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    resume: Resume = False,
) -> CommandResult:
    """Approve a call. The call is shown first, and on a terminal a confirmation is required."""

    async def act(goals: GoalPorts) -> GoalView:
        state = await goals.reader.state((await goals.reader.get(goal)).summary.goal_id)
        chosen = choose(state, "approve", call)
        about = state.calls[chosen.call_id].call
        if isinstance(about, ToolCall) and not options.json:
            print(call_text(about), file=sys.stderr)
        if can_ask(options) and not yes and not ask_yes_no("Run this?"):
            raise Denied("Not approved; nothing was recorded.")
        sha256 = shown_sha256(state, chosen.call_id)
        return await goals.steering.decide(state.goal_id, "approve", call_id=chosen.call_id, shown_sha256=sha256)

    return await record_decision(options, goal, act, is_resumed=resume, what="approval")


async def deny(
    options: Options,
    *,
    goal: Goal,
    call: AnyCall = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="The reason, recorded and passed to the goal.")
    ] = None,
    resume: Resume = False,
) -> CommandResult:
    """Deny a call that waits for approval; it is not run."""
    return await record_decision(
        options,
        goal,
        lambda goals: goals.steering.decide(goal, "deny", call_id=call, value=reason),
        is_resumed=resume,
        what="denial",
    )


async def answer(
    options: Options,
    *,
    goal: Goal,
    value: Annotated[
        list[str],
        typer.Argument(
            metavar="[CALL] VALUE",
            help="The answer; with the call of its question before it if several questions are open.",
            autocompletion=complete_calls,
        ),
    ],
    resume: Resume = False,
) -> CommandResult:
    """Answer a question of a goal."""
    if len(value) > 2:
        raise Invalid("Expected the answer, or the call and the answer. Quote an answer of several words.")
    call_id, text = (None, *value) if len(value) == 1 else value
    require_id(call_id)

    async def act(goals: GoalPorts) -> GoalView:
        try:
            return await goals.steering.decide(goal, "answer", call_id=call_id, value=text)
        except TooLate as error:
            seen = await goals.reader.look_into(await goals.reader.get(goal))
            following = "".join(f" Next: {pasteable_command(options, each)}" for each in seen.next[-1:])
            raise TooLate(f"{error.detail}{following}") from error

    return await record_decision(options, goal, act, is_resumed=resume, what=f"answer {text!r}")


async def decide(
    options: Options,
    *,
    goal: Goal,
    decision: Annotated[
        list[str],
        typer.Argument(
            metavar="[CALL] DECISION",
            help="skip (its effect exists: the call counts as done), retry (it had no effect: the call is run again) or"
            " abort (the goal ends as failed); with the call before it if several outcomes are unknown.",
            autocompletion=complete_calls,
        ),
    ],
    value: Annotated[
        str | None, typer.Option("--value", metavar="JSON", help="With skip: the output of the step.")
    ] = None,
    resume: Resume = False,
) -> CommandResult:
    """Settle a call whose outcome is unknown."""
    call, kind = (None, decision[0]) if len(decision) == 1 else (decision[0], decision[-1])
    require_id(call)
    if len(decision) > 2 or kind not in DECISIONS:
        raise Invalid(
            f"Invalid decision {' '.join(decision)[:80]!r}: expected {', '.join(DECISIONS)}, or a call and one of them."
        )
    if value is not None and kind != "skip":
        raise Invalid(f"--value is the output of a skipped step; it is not allowed with {kind}.")
    output = None if value is None else read_json_option("--value", value)

    async def act(goals: GoalPorts) -> GoalView:
        found = await goals.reader.get(goal)
        state = await goals.reader.state(found.id)
        known = state.calls.get(call) if call is not None else _only_cut_off(state)
        if known is not None and known.runs:
            raise Conflict(_not_yet(options, found, state, known.call.call_id))
        with _in_folder_of(options, found), redirect_prints(is_needed=output is not None):  # its flow is replayed
            return await goals.steering.decide(found.id, kind, call_id=call, value=output)

    return await record_decision(options, goal, act, is_resumed=resume, what=f"decision {kind}")


def _in_folder_of(options: Options, goal: GoalView) -> AbstractContextManager[None]:
    """Return a context in the folder of a goal's flow; with a server, the folder is not changed."""
    return in_folder_of(goal.summary) if options.server is None else nullcontext()


def _only_cut_off(state: GoalState) -> CallState | None:
    """Return the only open call if it was interrupted and its outcome was not checked yet."""
    calls = list(state.open_calls.values())
    return calls[0] if len(calls) == 1 and calls[0].runs and isinstance(calls[0].call, ToolCall) else None


def _not_yet(options: Options, goal: GoalView, state: GoalState, call_id: str) -> str:
    """Return why an open call cannot be decided yet."""
    if goal.is_running:
        return f"{call_id} is still running, so there is nothing to decide."
    advice = f"First, {run_again(state.begun)}"
    if not is_of_script(state.begun.mind):
        advice = f"Resume it first: {exact(options, 'goal', 'resume', goal.id)}"
    return f"{call_id} was interrupted, and its outcome was not checked yet. {advice}"


async def signal_(
    options: Options,
    *,
    goal: Goal,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the signal.")],
    payload: Annotated[
        str | None, typer.Argument(metavar="JSON", help="The payload of the signal (default: null).")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="TEXT", help="Idempotency key: the same key sends the signal once.")
    ] = None,
    resume: Resume = False,
) -> CommandResult:
    """Send a signal to a goal. Warns if the goal does not wait for it now; the signal is kept for a later wait."""
    value = None if payload is None else read_json_option("The payload", payload)
    return await record_decision(
        options,
        goal,
        lambda goals: goals.steering.signal(goal, name, value, key=key),
        is_resumed=resume,
        what=f"signal {name!r}",
    )


async def record_decision(
    options: Options, goal: str, act: Act, *, is_resumed: bool, what: str | None = None
) -> CommandResult:
    """Record a decision by `act`, and resume the goal if requested; `what` describes the decision in the output.

    Raises: the errors of `act`; NotFound, Invalid before anything is recorded when the goal cannot be resumed here.
    """
    async with goals_of(options) as goals:
        if is_resumed and isinstance(goals.reader, Goals):
            await _require_code(options, goals.reader, goal)
        is_followed = is_resumed and options.server is not None
        before = await goals.reader.get(goal) if is_followed else None
        seen = await act(goals)
        goal_id = seen.id
        data = seen.wire() | ({"warning": seen.note} if seen.note else {})
        if seen.note:
            _print_note(options, f"Warning: {seen.note}")
        if not seen.is_news and not is_resumed:
            return CommandResult(data, [f"{goal_id} already has a request with this key; nothing was changed."])
        if seen.is_running and not is_followed:
            return CommandResult(data, [f"Stored for the worker that runs {goal_id}."])
        if is_resumed:
            if what is not None:
                _print_note(
                    options, f"Recorded: {what}." if seen.is_news else f"Already recorded with the same key: {what}."
                )
            shown = before if before is not None and before.id == goal_id else seen
            return await _resume(options, goals, goal_id, after=shown.summary.last_seq)
        if seen.is_final:
            return CommandResult(data, [headline(seen)])
        return CommandResult(data, ["Recorded.", *_resume_hints(options, await goals.reader.look_into(seen))])


async def _resume(options: Options, goals: GoalPorts, goal_id: str, *, after: int) -> CommandResult:
    """Run a goal after a decision, and ask its further questions in place.

    A server runs its goals itself; its events after the seq `after` are shown.
    """
    home = goals.reader
    if not isinstance(home, Goals):
        from perdure.interfaces.cli.remote.runs import resume_at_server

        return await resume_at_server(Showing(options), str(options.server), goal_id, Limits(), after=after)

    async def act(ui: RunUi) -> RunResult:
        run_options = ui.run_options()
        result = await resume_run(options, home, goal_id, run_options)
        return await ui.settle_in_place(home, result, run_options)

    return await run_goal(Showing(options), act)


def _resume_hints(options: Options, goal: GoalView) -> list[str]:
    """Return the lines that say how the goal is resumed after a decision."""
    if not goal.is_queued:
        return next_lines(options, goal)
    if options.server is not None:
        return ["The server resumes it."]
    return [f"A running `perdure serve` resumes it; without one: {exact(options, 'goal', 'resume', goal.id)}"]


async def _require_code(options: Options, goals: Goals, goal: str) -> None:
    """Check that a goal can be resumed here, before anything is recorded.

    Raises: NotFound; Invalid.
    """
    try:
        await require_code(goals, goal)
    except PerdureError:
        _print_note(options, "Nothing was recorded.")
        raise


def _print_note(options: Options, line: str) -> None:
    """Print a line on standard error at once; with --json, the JSON has the same information."""
    if not options.json:
        print(one_line(line), file=sys.stderr, flush=True)
