"""`perdure goal`: look at goals, answer them, decide for them."""

from typing import Annotated

import typer

from perdure.app import Perdure, open_home
from perdure.errors import Conflict
from perdure.interfaces.cli.answer import Answer, Table
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.timeline import (
    exit_code_of,
    goal_object,
    next_command,
    state_of,
    summary_object,
    timeline,
)

Goal = Annotated[str, typer.Argument(metavar="ID", help="The goal's id, or its beginning.")]
Call = Annotated[str, typer.Argument(metavar="CALL", help="The call, as `perdure goal show` names it.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for name, fn in (
        ("list", list_),
        ("ls", list_),
        ("show", show),
        ("resume", resume),
        ("replay", replay),
        ("cancel", cancel),
        ("answer", answer),
        ("decide", decide),
    ):
        command(app, name)(fn)


async def list_(
    options: Options, *, limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many.")] = 50
) -> Answer:
    """List the newest goals."""
    async with open_home(options.settings(), debug=options.verbose) as p:
        return await listed(p, limit=limit)


async def listed(p: Perdure, *, limit: int) -> Answer:
    """Answer with the newest goals of an open home."""
    goals = await p.goals.list(limit=limit)
    rows = [[goal.goal_id, goal.status, goal.reason or goal.waiting_for or "", str(goal.steps)] for goal in goals]
    return Answer(
        {"goals": [summary_object(goal) for goal in goals]}, [Table(["goal", "status", "why", "steps"], rows)]
    )


async def show(options: Options, *, goal: Goal) -> Answer:
    """Show the steps of a goal, and how to go on with it."""
    async with open_home(options.settings(), debug=options.verbose) as p:
        state = await p.goals.state((await p.goals.find(goal)).goal_id)
    calls = [{"call_id": name, "step": call.call.step, "state": state_of(call)} for name, call in state.calls.items()]
    head = f"{state.goal_id}: {state.status}, {state.begun.text}"
    said: list[str | Table] = [head, timeline(state), *next_command(state)]
    return Answer({**goal_object(state), "calls": calls}, said)


async def resume(options: Options, *, goal: Goal) -> Answer:
    """Go on with a goal; one that has ended is left as it is."""
    from perdure.interfaces.cli.run import answered

    async with open_home(options.settings(), debug=options.verbose) as p:
        return answered(await p.goals.resume(goal), is_quiet=options.json)


async def replay(options: Options, *, goal: Goal) -> Answer:
    """Fold the history again, checking every event; exit 7 when one was changed or is missing."""
    async with open_home(options.settings(), debug=options.verbose) as p:
        replayed = await p.goals.replay(goal)
    state = replayed.state
    data = {**goal_object(state), "state_hash": replayed.state_hash}
    return Answer(data, [timeline(state), f"{state.tip.seq} events are as they were written; {replayed.state_hash}"])


async def cancel(options: Options, *, goal: Goal) -> Answer:
    """End a goal; who runs it ends it, else it is ended here."""
    async with open_home(options.settings(), debug=options.verbose) as p:
        found = await p.goals.cancel(goal)
        return await _settled(p, found.goal_id)


async def answer(
    options: Options,
    *,
    goal: Goal,
    call: Call,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The answer.")],
) -> Answer:
    """Answer a question of a goal, and let it go on."""
    async with open_home(options.settings(), debug=options.verbose) as p:
        found = await p.goals.decide(goal, call, "answer", value)
        return await _settled(p, found.goal_id)


async def decide(
    options: Options,
    *,
    goal: Goal,
    call: Call,
    decision: Annotated[str, typer.Argument(metavar="DECISION", help="retry, skip or abort.")],
) -> Answer:
    """Settle a call whose outcome nobody knows, and let the goal go on."""
    async with open_home(options.settings(), debug=options.verbose) as p:
        found = await p.goals.decide(goal, call, decision)
        return await _settled(p, found.goal_id)


async def _settled(p: Perdure, goal_id: str) -> Answer:
    """Go on with a goal after a decision; one that somebody else runs takes it by itself."""
    try:
        ran = await p.goals.resume(goal_id)
    except Conflict:
        summary = await p.goals.find(goal_id)
        return Answer(summary_object(summary), [f"Stored for {goal_id}, which is being worked on."])
    return Answer(goal_object(ran.state), [timeline(ran.state)], exit_code=exit_code_of(ran))
