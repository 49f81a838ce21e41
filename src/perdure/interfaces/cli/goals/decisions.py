"""`perdure goal cancel | approve | deny | answer | decide | signal`: record a decision, then resume if asked."""

import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated

import typer

from perdure.app.goals.goals import Goals
from perdure.app.goals.updates.posts import CLEANING_UP
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.next_commands import DECISIONS
from perdure.app.wire.resources.parameters import GoalFilters
from perdure.errors import Conflict, Denied, Invalid, PerdureError
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.completion import complete_calls
from perdure.interfaces.cli.confirm import can_ask, is_sure
from perdure.interfaces.cli.goals.bulk import All, Yes, cancel_verb, change_many, is_of_several
from perdure.interfaces.cli.goals.display.hints import next_lines, pasted, shown_call
from perdure.interfaces.cli.goals.display.timeline import headline
from perdure.interfaces.cli.goals.filters import OF_SEVERAL, with_filters
from perdure.interfaces.cli.goals.flags import Goal, MaybeGoal, Resume, filled
from perdure.interfaces.cli.goals.run_ui.flows import from_json, in_folder_of, prints_aside, require_code, resume_run
from perdure.interfaces.cli.goals.run_ui.run_ui import Showing, Stage, staged
from perdure.interfaces.cli.output.terminal import one_line
from perdure.interfaces.cli.remote.opened import goals_of
from perdure.interfaces.cli.remote.ports.goals import GoalPorts
from perdure.interfaces.cli.shell_hints import exact
from perdure.kernel.calls.decisions import TooLate, choose
from perdure.kernel.events import Limits, ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.loop import RunResult
from perdure.minds.flow.scripts import is_of_script, run_again

Act = Callable[[GoalPorts], Awaitable[GoalView]]
AnyCall = Annotated[
    str | None,
    typer.Argument(
        metavar="CALL",
        help="The call; may be left out when only one fits.",
        callback=filled,
        autocompletion=complete_calls,
    ),
]

Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why it is cancelled; recorded in the history.")
]
Now = Annotated[bool, typer.Option("--now", help="End it without running the cleanup of its flow.")]


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
    all_: All = False,
    yes: Yes = False,
    reason: Reason = None,
    now: Now = False,
) -> Answer:
    """Cancel a goal, or all goals that match the filters, and wait until each has ended.

    The worker that runs a goal ends the steps that it has started. The flow of a goal with cleanup runs its `finally`
    blocks first, here if no worker runs the goal; a second cancel, or --now, ends it at once. Several goals are counted
    and confirmed first.
    """
    if is_of_several(goal, filters, is_all=all_) or goal is None:
        return await change_many(options, cancel_verb(reason, now=now), filters, yes=yes)
    async with goals_of(options) as goals:
        found = await goals.reader.get(goal)
        with _in_folder_of(options, found), prints_aside(is_needed=options.json):
            seen = await goals.steering.cancel(found.id, reason=reason, now=now)
    if seen.is_final and seen.status != "cancelled":
        raise Conflict(f"{seen.id} has ended before it could be cancelled: {seen.status}.")
    return Answer(seen.wire(), [f"{seen.id} is cancelled." if seen.is_final else _unended(seen)])


def _unended(goal: GoalView) -> str:
    """Say why a cancelled goal has not ended."""
    if not goal.is_running:
        return f"{goal.id}: {goal.note or CLEANING_UP}"
    return f"Stored for the worker that runs {goal.id}, which has not ended it yet."


async def approve(
    options: Options,
    *,
    goal: Goal,
    call: AnyCall = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether you are sure.")] = False,
    resume: Resume = False,
) -> Answer:
    """Allow a call that waits for approval; what will be run is shown, and asked about on a terminal."""

    async def act(goals: GoalPorts) -> GoalView:
        state = await goals.reader.state((await goals.reader.get(goal)).summary.goal_id)
        chosen = choose(state, "approve", call)
        about = state.calls[chosen.call_id].call
        if isinstance(about, ToolCall) and not options.json:
            print(shown_call(about), file=sys.stderr)
        if can_ask(options) and not yes and not is_sure("Run this?"):
            raise Denied("Not approved; nothing was recorded.")
        return await goals.steering.decide(state.goal_id, "approve", call_id=chosen.call_id)

    return await settled(options, goal, act, is_resumed=resume, what="approval")


async def deny(
    options: Options,
    *,
    goal: Goal,
    call: AnyCall = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="The reason; it is recorded and shown to the goal.")
    ] = None,
    resume: Resume = False,
) -> Answer:
    """Refuse a call that waits for approval; it is not run."""
    return await settled(
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
            help="The answer; CALL VALUE when several questions are open.",
            autocompletion=complete_calls,
        ),
    ],
    resume: Resume = False,
) -> Answer:
    """Answer a question of a goal."""
    if len(value) > 2:
        raise Invalid("Give the answer, or the call and the answer; an answer of several words stands in quotes.")
    call_id, text = (None, *value) if len(value) == 1 else value
    filled(call_id)

    async def act(goals: GoalPorts) -> GoalView:
        try:
            return await goals.steering.decide(goal, "answer", call_id=call_id, value=text)
        except TooLate as error:
            seen = await goals.reader.look_into(await goals.reader.get(goal))
            following = "".join(f" Next: {pasted(options, each)}" for each in seen.next[-1:])
            raise TooLate(f"{error.detail}{following}") from error

    return await settled(options, goal, act, is_resumed=resume, what=f"answer {text!r}")


async def decide(
    options: Options,
    *,
    goal: Goal,
    decision: Annotated[
        list[str],
        typer.Argument(
            metavar="[CALL] DECISION",
            help="retry it, skip it (it counts as done), or abort (the goal ends failed); CALL DECISION when several"
            " calls are unknown.",
            autocompletion=complete_calls,
        ),
    ],
    value: Annotated[
        str | None, typer.Option("--value", metavar="JSON", help="With skip: the output that the step shall have.")
    ] = None,
    resume: Resume = False,
) -> Answer:
    """Settle a call whose outcome is unknown."""
    call, kind = (None, decision[0]) if len(decision) == 1 else (decision[0], decision[-1])
    filled(call)
    if len(decision) > 2 or kind not in DECISIONS:
        raise Invalid(f"Give {', '.join(DECISIONS)} as the decision, after the call when several are unknown.")
    if value is not None and kind != "skip":
        raise Invalid(f"--value is the output of a step that is skipped; {kind} has none.")
    output = None if value is None else from_json("--value", value)

    async def act(goals: GoalPorts) -> GoalView:
        found = await goals.reader.get(goal)
        state = await goals.reader.state(found.id)
        known = state.calls.get(call) if call is not None else _only_cut_off(state)
        if known is not None and known.runs:
            raise Conflict(_not_yet(options, found, state, known.call.call_id))
        with _in_folder_of(options, found), prints_aside(is_needed=output is not None):  # its flow is replayed
            return await goals.steering.decide(found.id, kind, call_id=call, value=output)

    return await settled(options, goal, act, is_resumed=resume, what=f"decision {kind}")


def _in_folder_of(options: Options, goal: GoalView) -> AbstractContextManager[None]:
    """Run what belongs to a flow in the folder of its goal; a server does that where it is."""
    return in_folder_of(goal.summary) if options.server is None else nullcontext()


def _only_cut_off(state: GoalState) -> CallState | None:
    """Return the only open call, if its outcome is unknown and was not checked yet."""
    calls = list(state.open_calls.values())
    return calls[0] if len(calls) == 1 and calls[0].runs and isinstance(calls[0].call, ToolCall) else None


def _not_yet(options: Options, goal: GoalView, state: GoalState, call_id: str) -> str:
    """Say why a call that is open cannot be decided on yet."""
    if goal.is_running:
        return f"{call_id} is running; its outcome will be known."
    how = f"First, {run_again(state.begun)}"
    if not is_of_script(state.begun.mind):
        how = f"Resume it first: {exact(options, 'goal', 'resume', goal.id)}"
    return f"{call_id} was cut off, and whether it happened was not looked at yet. {how}"


async def signal_(
    options: Options,
    *,
    goal: Goal,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name that the goal waits for, or will.")],
    payload: Annotated[
        str | None, typer.Argument(metavar="JSON", help="The payload of the signal (default: null).")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="TEXT", help="Idempotency key: the same key sends the signal once.")
    ] = None,
    resume: Resume = False,
) -> Answer:
    """Send a signal that a goal waits for, or will wait for; warns when nothing waits for it now."""
    value = None if payload is None else from_json("The payload", payload)
    return await settled(
        options,
        goal,
        lambda goals: goals.steering.signal(goal, name, value, key=key),
        is_resumed=resume,
        what=f"signal {name!r}",
    )


async def settled(options: Options, goal: str, act: Act, *, is_resumed: bool, what: str | None = None) -> Answer:
    """Record a decision, and resume the goal if that was asked for; `what` was recorded is said before the run.

    Raises: what `act` raises; NotFound, Invalid before anything is recorded when the goal cannot be resumed here.
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
            _say(options, f"Warning: {seen.note}")
        if not seen.is_news and not is_resumed:
            return Answer(data, [f"{goal_id} was told that already, with the same key; nothing was changed."])
        if seen.is_running and not is_followed:
            return Answer(data, [f"Stored for the worker that runs {goal_id}."])
        if is_resumed:
            if what is not None:
                _say(options, f"Recorded: {what}." if seen.is_news else f"Recorded before, with the same key: {what}.")
            shown = before if before is not None and before.id == goal_id else seen
            return await _resumed(options, goals, goal_id, after=shown.summary.last_seq)
        if seen.is_final:
            return Answer(data, [headline(seen)])
        return Answer(data, ["Recorded.", *_how_resumed(options, await goals.reader.look_into(seen))])


async def _resumed(options: Options, goals: GoalPorts, goal_id: str, *, after: int) -> Answer:
    """Run a goal that a decision was recorded for, and ask in place what else it waits for.

    A server runs its goals itself; what happens there after the event `after` is shown.
    """
    home = goals.reader
    if not isinstance(home, Goals):
        from perdure.interfaces.cli.remote.runs import resume_at_server

        return await resume_at_server(Showing(options), str(options.server), goal_id, Limits(), after=after)

    async def act(stage: Stage) -> RunResult:
        run_options = stage.run_options()
        result = await resume_run(options, home, goal_id, run_options)
        return await stage.settle_in_place(home, result, run_options)

    return await staged(Showing(options), act)


def _how_resumed(options: Options, goal: GoalView) -> list[str]:
    """Say how a goal is resumed that a decision was recorded for."""
    if not goal.is_queued:
        return next_lines(options, goal)
    if options.server is not None:
        return ["The server resumes it."]
    return [f"A running `perdure serve` resumes it; without one: {exact(options, 'goal', 'resume', goal.id)}"]


async def _require_code(options: Options, goals: Goals, goal: str) -> None:
    """Check that a goal can be resumed here, before anything is recorded; what was not recorded is said.

    Raises: NotFound; Invalid.
    """
    try:
        await require_code(goals, goal)
    except PerdureError:
        _say(options, "Nothing was recorded.")
        raise


def _say(options: Options, line: str) -> None:
    """Print a line on standard error at once; a program reads the same from the JSON."""
    if not options.json:
        print(one_line(line), file=sys.stderr, flush=True)
