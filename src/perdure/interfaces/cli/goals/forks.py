"""`perdure goal fork | diff`: continue a goal differently from a point in its history, and compare two histories."""

import json
import sys
from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated, TypedDict

import typer

from perdure.app import open_home
from perdure.app.goals.updates.child_effects import read_child_effects
from perdure.app.wire.goal_view import GoalView
from perdure.errors import Damaged, Invalid
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer, Table
from perdure.interfaces.cli.completion import complete_steps
from perdure.interfaces.cli.goals.decisions import settled
from perdure.interfaces.cli.goals.display.hints import next_lines
from perdure.interfaces.cli.goals.flags import BY_HASH, Goal, PolicyOfGoal, Resume, SeenGoal
from perdure.interfaces.cli.output.terminal import one_line, wrapped_for
from perdure.interfaces.cli.remote.opened import goals_of
from perdure.interfaces.cli.remote.ports.goals import GoalPorts
from perdure.kernel.events import Event, ToolCall
from perdure.kernel.fold import fold
from perdure.kernel.history.compare import Parted
from perdure.kernel.history.repetition import done_after

_MOST_DIGITS = 9
"""A number that is typed has fewer: neither a list nor a history is that long."""


class _Place(TypedDict):
    """Where to fork: one of these is given."""

    before: str | None
    after: str | None
    at: int | None


_Before = Annotated[
    str | None,
    typer.Option(
        "--before",
        metavar="STEP",
        help="Keep the events before this step, which is called again.",
        autocompletion=complete_steps,
    ),
]
_After = Annotated[
    str | None,
    typer.Option(
        "--after",
        metavar="STEP",
        help="Keep the events up to the outcome of this step.",
        autocompletion=complete_steps,
    ),
]
_At = Annotated[
    str | None,
    typer.Option("--at", metavar="SEQ", help="Keep the events 1 to SEQ, as `perdure goal show` numbers them."),
]
_Repeat = Annotated[
    list[str] | None,
    typer.Option(
        "--repeat",
        metavar="STEP",
        help="Accept that the fork repeats this `once` step, which may have happened, or does not undo this step of a"
        " cleanup; may be given several times.",
    ),
]
_TakeKey = Annotated[
    bool, typer.Option("--take-key", help="Move the start key of the goal to the fork; the goal has none then.")
]
_SHOWN = 10
_WIDTH = 60


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, "fork", runs_flows=True, server=True)(fork)
    command(app, "diff", server=BY_HASH)(diff)


async def fork(  # noqa: PLR0913 (one parameter for each option)
    options: Options,
    *,
    goal: Goal,
    before: _Before = None,
    after: _After = None,
    at: _At = None,
    repeat: _Repeat = None,
    take_key: _TakeKey = False,
    policy: PolicyOfGoal = None,
    resume: Resume = False,
) -> Answer:
    """Fork a goal: the new goal shares its events up to a point and continues from there; the goal stays as it is.

    Give exactly one of --before, --after and --at. STEP is a step as
    `perdure goal show` prints it: `charge` for `/charge#0` where that is
    unambiguous, a plan's step, or a call such as `charge.2`.

    Calls that are open at that point are void and called again, and so are
    the steps after it. A `once` step that may have happened is repeated only
    if --repeat names it. A goal that was cancelled and has cleaned up is
    forked only if --repeat names the steps of its cleanup.
    """
    place, again = _place(before, after, at), list[str]()

    async def act(goals: GoalPorts) -> GoalView:
        made = await goals.steering.fork(goal, **place, repeat=repeat or (), take_key=take_key, policy=policy)
        again.extend(await _done_again(goals, goal, made))
        if again and not options.json:
            print(wrapped_for(_said_again(goal, again), sys.stderr), file=sys.stderr)
        if resume and not options.json:
            for line in _voided(await goals.reader.history(made.id)):
                print(wrapped_for(line, sys.stderr), file=sys.stderr)
        return made

    if resume:
        return await settled(options, goal, act, is_resumed=True)
    async with goals_of(options) as goals:
        made = await goals.reader.look_into(await act(goals))
        history = await goals.reader.history(made.id)
    state = fold(history)
    taken = [f"It has the start key of {goal}."] if take_key else []
    data = made.wire() | {"voided": list(state.begun.voided), "done_again": again}
    return Answer(data, [_forked_line(made), *_voided(history), *taken, *next_lines(options, made)])


def _forked_line(fork: GoalView) -> str:
    """Say where a fork came from."""
    origin = fork.summary.forked_from
    return f"{fork.id} continues from event {origin.seq} of {origin.goal_id}." if origin else fork.id


def _place(before: str | None, after: str | None, at: str | None) -> _Place:
    """Return where to fork, as Goals.fork takes it.

    Raises: Invalid
    """
    is_number = at is not None and at.isdecimal() and at.isascii() and len(at) <= _MOST_DIGITS
    if at is not None and (not is_number or int(at) < 1):
        found = f"found {at[:40]!r}"
        raise Invalid(f"--at is the number of an event, as `perdure goal show` has it in its column seq; {found}.")
    return {"before": before, "after": after, "at": None if at is None else int(at)}


async def _done_again(goals: GoalPorts, goal: str, fork: GoalView) -> list[str]:
    """Return the `once` steps that were done in the original and will be done again; none where that is damaged."""
    origin = fork.summary.forked_from
    if origin is None:
        return []
    try:
        state = fold(await goals.reader.history(goal))
        children = await read_child_effects(goals.reader.history, state.calls.values())
        return done_after(state, origin.seq, children)
    except Damaged:
        return []


def _said_again(goal: str, steps: Sequence[str]) -> str:
    more = f" and {len(steps) - _SHOWN} more" if len(steps) > _SHOWN else ""
    were = "was" if len(steps) == 1 else "were"
    return one_line(f"{', '.join(steps[:_SHOWN])}{more} {were} done in {goal} and will be done again.")


def _voided(history: Sequence[Event]) -> list[str]:
    """Say which calls a new fork repeats: those that were open where it was forked."""
    lines = []
    for call in fold(history[:-1]).open_calls.values():
        effect = f" ({call.call.effect})" if isinstance(call.call, ToolCall) else ""
        lines.append(one_line(f"Void, and called again in the fork: {call.call.call_id}{effect}"))
    return lines


async def diff(
    options: Options,
    *,
    goal: SeenGoal,
    other: Annotated[
        str, typer.Argument(metavar="OTHER", help="The goal to compare it with: its id, or a unique prefix of it.")
    ],
) -> Answer:
    """Show where the histories of two goals part: exit 0 when they are the same, 1 when they are not.

    What happened is compared, not when it did or how long it took.
    """
    async with open_home(options.settings(), debug=options.verbose) as p:
        found = [await p.goals.find(name) for name in (goal, other)]
        left, right = [view.summary.goal_id for view in found]
        parted = await p.goals.compare(left, right)
    is_same = not (parted.left or parted.right)
    data = {
        "is_same": is_same,
        "common": parted.common,
        "left": {"id": left, "events": [event.wire() for event in parted.left]},
        "right": {"id": right, "events": [event.wire() for event in parted.right]},
    }
    events = f"{parted.common} event{'' if parted.common == 1 else 's'}"
    if is_same:
        return Answer(data, [f"{left} and {right} have the same {events}."])
    upto = f"are the same up to event {parted.common}" if parted.common else "differ from the first event"
    said = [f"{left} and {right} {upto}.", *_forked(found)]
    return Answer(data, [*said, _side_by_side(left, parted.left, right, parted.right), *_more(parted)], exit_code=1)


def _forked(found: Sequence[GoalView]) -> list[str]:
    forks = [(view.summary.goal_id, view.summary.forked_from) for view in found]
    return [f"{name} is a fork of {origin.goal_id} at event {origin.seq}." for name, origin in forks if origin]


def _side_by_side(left: str, lefts: Sequence[Event], right: str, rights: Sequence[Event]) -> Table:
    pairs = zip_longest(_told(lefts), _told(rights), fillvalue=("", ""))
    return Table(["seq", left, "seq", right], [[*one, *two] for one, two in pairs])


def _told(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Describe an event; the `goal` event of a fork is left out beside the events of its parent."""
    return [(str(event.seq), _about(event)) for event in events if event.seq == 1 or event.type != "goal"][:_SHOWN]


def _more(parted: Parted) -> list[str]:
    left_out = max(len(parted.left), len(parted.right)) - _SHOWN
    return [f"{left_out} more of them; --json has all."] if left_out > 0 else []


def _about(event: Event) -> str:
    """Say in a few words what happened."""
    content = event.content()
    named = next((str(content[name]) for name in ("call_id", "name", "reason", "text") if content.get(name)), "")
    kind = content.get("kind") or content.get("decision") or event.type
    found = next((content[name] for name in _TELLING if content.get(name) is not None), None)
    text = f"{kind} {named}" + ("" if found is None else f": {json.dumps(found, ensure_ascii=False)}")
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


_TELLING = (
    "error",
    "output",
    "again",
    "question",
    "until",
    "signal",
    "payload",
    "arguments",
    "value",
    "detail",
    "mind",
)
