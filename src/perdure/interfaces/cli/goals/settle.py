"""`perdure goal cancel | approve | deny | answer | decide | signal`: record what somebody wants; go on if asked."""

import json
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

import typer

from perdure.app import open_home
from perdure.app.goals import Goals
from perdure.app.runner import Manner
from perdure.app.views import GoalView
from perdure.errors import Conflict, Denied, Invalid
from perdure.interfaces.cli.answer import Answer
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.goals.flags import Goal, Resume, filled
from perdure.interfaces.cli.goals.flows import from_json, go_on
from perdure.interfaces.cli.goals.hints import exact
from perdure.interfaces.cli.goals.stage import Showing, staged
from perdure.interfaces.cli.goals.timeline import headline
from perdure.interfaces.cli.terminal import lines, one_line
from perdure.kernel.decisions import choose
from perdure.kernel.events import ToolCall

_ENDED = ("done", "stopped")

Act = Callable[[Goals], Awaitable[GoalView]]
Call = Annotated[
    str, typer.Argument(metavar="CALL", help="The call, as `perdure goal show` names it.", callback=filled)
]
AnyCall = Annotated[
    str | None,
    typer.Argument(metavar="CALL", help="The call; may be left out when only one can be meant.", callback=filled),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for fn in (cancel, approve, deny, answer, decide, signal_):
        command(app, fn.__name__.rstrip("_"))(fn)


async def cancel(options: Options, *, goal: Goal) -> Answer:
    """End a goal: whoever runs it ends what it has begun, else it is ended here."""
    async with open_home(options.settings(), debug=options.verbose) as p:
        seen = await p.goals.cancel(goal)
    goal_id = seen.summary.goal_id
    is_over = seen.summary.status in _ENDED
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
        if can_ask(options) and not yes and not is_sure("Run this?"):
            raise Denied("Not approved; nothing was recorded.")
        return await goals.decide(state.goal_id, "approve", call_id=chosen.call_id)

    return await settled(options, act, is_resumed=resume)


async def deny(
    options: Options,
    *,
    goal: Goal,
    call: AnyCall = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; the goal is told.")] = None,
    resume: Resume = False,
) -> Answer:
    """Refuse a call that waits for approval; it is not run."""
    return await settled(
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
    filled(call_id)
    return await settled(
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
    output = None if value is None else from_json("--value", value)

    async def act(goals: Goals) -> GoalView:
        found = await goals.find(goal)
        known = (await goals.state(found.summary.goal_id)).calls.get(call)
        if known is not None and known.runs:
            raise Conflict(_not_yet(options, found, call))
        return await goals.decide(found.summary.goal_id, decision, call_id=call, value=output)

    return await settled(options, act, is_resumed=resume)


def _not_yet(options: Options, goal: GoalView, call_id: str) -> str:
    """Say why a call that is open cannot be decided on yet."""
    if goal.is_running:
        return f"{call_id} is running; its outcome will be known."
    command = exact(options, "run", "--resume", goal.summary.goal_id)
    return f"{call_id} was cut off, and whether it happened was not looked at yet. Resume it first: {command}"


async def signal_(
    options: Options,
    *,
    goal: Goal,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name that the goal waits for, or will.")],
    payload: Annotated[
        str | None, typer.Argument(metavar="JSON", help="What the goal is told; null if left out.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="TEXT", help="Names this one signal: the same key tells it once.")
    ] = None,
    resume: Resume = False,
) -> Answer:
    """Tell a goal something that it waits for, or will wait for."""
    value = None if payload is None else from_json("The payload", payload)
    return await settled(options, lambda goals: goals.signal(goal, name, value, key=key), is_resumed=resume)


async def settled(options: Options, act: Act, *, is_resumed: bool) -> Answer:
    """Record a decision, and go on with the goal if that was asked for."""
    async with open_home(options.settings(), debug=options.verbose) as p:
        seen = await act(p.goals)
        goal_id = seen.id
        if not seen.is_news and not is_resumed:
            return Answer(seen.wire(), [f"{goal_id} was told that already, with the same key; nothing was changed."])
        if seen.is_running:
            return Answer(seen.wire(), [f"Stored for the worker that runs {goal_id}."])
        if is_resumed:
            return await staged(
                Showing(options), lambda stage: go_on(options, p.goals, goal_id, Manner(watch=stage.watch))
            )
    if seen.summary.status in _ENDED:
        return Answer(seen.wire(), [headline(seen)])
    return Answer(seen.wire(), [f"Recorded; `{exact(options, 'run', '--resume', goal_id)}` goes on."])


def _shown(call: ToolCall) -> str:
    """Return exactly what will be run."""
    arguments = json.dumps(call.arguments, indent=2, ensure_ascii=False)
    return f"{one_line(f'{call.call_id}: {call.tool}, {call.effect}')}\n{lines(arguments)}"


def can_ask(options: Options) -> bool:
    """Tell whether a person is there who may be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not (options.no_input or options.json)


def is_sure(question: str) -> bool:
    """Ask; an interrupt ends the question at once."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return typer.confirm(question, err=True)
    finally:
        signal.signal(signal.SIGINT, before)
