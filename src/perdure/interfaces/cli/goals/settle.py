"""`perdure goal cancel | approve | deny | answer | decide`: record what somebody wants; go on only if asked to."""

import json
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import typer

from perdure.app import open_home
from perdure.app.goals import Goals
from perdure.app.runner import Manner
from perdure.app.views import GoalView
from perdure.errors import Denied, Invalid
from perdure.interfaces.cli.answer import Answer
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.goals.flags import Goal, Resume
from perdure.interfaces.cli.goals.stage import Showing, Stage, staged
from perdure.interfaces.cli.goals.timeline import exact
from perdure.interfaces.cli.terminal import lines, one_line
from perdure.kernel.decisions import choose
from perdure.kernel.events import ToolCall
from perdure.kernel.loop import Ran

Act = Callable[[Goals], Awaitable[GoalView]]
Call = Annotated[str, typer.Argument(metavar="CALL", help="The call, as `perdure goal show` names it.")]
AnyCall = Annotated[
    str | None, typer.Argument(metavar="CALL", help="The call; may be left out when only one can be meant.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for fn in (cancel, approve, deny, answer, decide):
        command(app, fn.__name__)(fn)


async def cancel(options: Options, *, goal: Goal) -> Answer:
    """End a goal: whoever runs it ends what it has begun, else it is ended here."""
    async with open_home(options.settings(), debug=options.verbose) as p:
        seen = await p.goals.cancel(goal)
    goal_id = seen.summary.goal_id
    is_over = seen.summary.status in ("done", "stopped")
    said = f"{goal_id} is cancelled." if is_over else f"Stored for the worker that runs {goal_id}; it ends it."
    return Answer(seen.wire(), [said])


async def approve(
    options: Options,
    *,
    goal: Goal,
    call: AnyCall = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether you are sure.")] = False,
    resume: Resume = False,
) -> Answer:
    """Allow a call that waits for approval; what will be run is shown, and asked about on a terminal."""

    async def act(goals: Goals) -> GoalView:
        state = await goals.state((await goals.find(goal)).summary.goal_id)
        chosen = choose(state, "approve", call)
        about = state.calls[chosen.call_id].call
        if isinstance(about, ToolCall) and not options.json:
            print(_shown(about), file=sys.stderr)
        if _can_ask(options) and not yes and not _is_sure():
            raise Denied("Not approved; nothing was recorded.")
        return await goals.decide(state.goal_id, "approve", call_id=chosen.call_id)

    return await _settled(options, act, is_resumed=resume)


async def deny(
    options: Options,
    *,
    goal: Goal,
    call: AnyCall = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; the goal is told.")] = None,
    resume: Resume = False,
) -> Answer:
    """Refuse a call that waits for approval; it is not run."""
    return await _settled(
        options, lambda goals: goals.decide(goal, "deny", call_id=call, value=reason), is_resumed=resume
    )


async def answer(
    options: Options,
    *,
    goal: Goal,
    value: Annotated[
        list[str],
        typer.Argument(metavar="[CALL] VALUE", help="The answer; CALL VALUE when several questions are open."),
    ],
    resume: Resume = False,
) -> Answer:
    """Answer a question of a goal."""
    if len(value) > 2:
        raise Invalid("Give the answer, or the call and the answer; an answer of several words stands in quotes.")
    call_id, text = (None, *value) if len(value) == 1 else value
    return await _settled(
        options, lambda goals: goals.decide(goal, "answer", call_id=call_id, value=text), is_resumed=resume
    )


async def decide(
    options: Options,
    *,
    goal: Goal,
    call: Call,
    decision: Annotated[
        Literal["retry", "skip", "abort"],
        typer.Argument(
            metavar="DECISION", help="retry it, skip it (it counts as done), or abort (the goal ends failed)."
        ),
    ],
    value: Annotated[
        str | None, typer.Option("--value", metavar="JSON", help="With skip: the output that the step shall have.")
    ] = None,
    resume: Resume = False,
) -> Answer:
    """Settle a call whose outcome nobody knows."""
    if value is not None and decision != "skip":
        raise Invalid(f"--value is the output of a step that is skipped; {decision} has none.")
    output = None if value is None else _json(value)
    return await _settled(
        options, lambda goals: goals.decide(goal, decision, call_id=call, value=output), is_resumed=resume
    )


async def _settled(options: Options, act: Act, *, is_resumed: bool) -> Answer:
    """Record a decision, and go on with the goal if that was asked for."""
    if is_resumed:
        return await _carried_on(options, act)
    async with open_home(options.settings(), debug=options.verbose) as p:
        seen = await act(p.goals)
    goal_id = seen.summary.goal_id
    if seen.is_running:
        return Answer(seen.wire(), [f"Stored for the worker that runs {goal_id}."])
    return Answer(seen.wire(), [f"Recorded; `{exact(options, 'run', '--resume', goal_id)}` goes on."])


async def _carried_on(options: Options, act: Act) -> Answer:
    async def decided(stage: Stage) -> Ran:
        async with open_home(options.settings(), debug=options.verbose) as p:
            seen = await act(p.goals)
            return await p.goals.go_on(seen.summary.goal_id, Manner(watch=stage.watch))

    return await staged(Showing(options), decided)


def _shown(call: ToolCall) -> str:
    """Return exactly what will be run."""
    arguments = json.dumps(call.arguments, indent=2, ensure_ascii=False)
    return f"{one_line(f'{call.call_id}: {call.tool}, {call.effect}')}\n{lines(arguments)}"


def _can_ask(options: Options) -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty() and not (options.no_input or options.json)


def _is_sure() -> bool:
    """Ask; an interrupt ends the question at once."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return typer.confirm("Run this?", err=True)
    finally:
        signal.signal(signal.SIGINT, before)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Invalid(f"--value is JSON, such as '\"text\"' or '{{\"a\": 1}}'; found {text[:40]!r}.") from error
