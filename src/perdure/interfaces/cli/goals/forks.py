"""`perdure goal fork | diff`: continue a goal differently from a point in its history, and compare two histories."""

import json
import sys
from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated, TypedDict

import typer

from perdure.app import open_home
from perdure.app.goals.updates.child_effects import read_done_after
from perdure.app.goals.values import Event, Parted, ToolCall, fold
from perdure.app.wire.goal_view import GoalView
from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult, Table
from perdure.interfaces.cli.completion import complete_steps
from perdure.interfaces.cli.goals.decisions import record_decision
from perdure.interfaces.cli.goals.display.hints import next_lines
from perdure.interfaces.cli.goals.flags import BY_HASH, Goal, PolicyOfGoal, Resume, SeenGoal
from perdure.interfaces.cli.output.terminal import one_line, wrapped_for
from perdure.interfaces.cli.remote.opened import goals_of
from perdure.interfaces.cli.remote.ports.goals import GoalPorts

_MOST_DIGITS = 9
"""The maximum number of digits of --at; no history has that many events."""


class _Place(TypedDict):
    """The place of a fork; exactly one field is set."""

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
        help="A `once` step that the fork may run again although its effect may exist already; or a step of a cleanup"
        " whose effect the fork may leave in place. May be used several times.",
    ),
]
_TakeKey = Annotated[bool, typer.Option("--take-key", help="Move the start key from the goal to the fork.")]
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
) -> CommandResult:
    """Fork a goal: the new goal shares its events up to a point and continues from there. The goal is unchanged.

    Use exactly one of --before, --after and --at. STEP is a step as
    `perdure goal show` prints it: `charge` for `/charge#0` where that is
    unambiguous, a plan's step, or a call such as `charge.2`.

    The fork calls all later steps again, and the calls that had no outcome
    at that point. A `once` step whose effect may exist is called again only
    if --repeat names it. A cancelled goal that has run its cleanup is forked
    only if --repeat names the steps of the cleanup.
    """
    place, repeated_steps = _place(before, after, at), list[str]()

    async def act(goals: GoalPorts) -> GoalView:
        new_goal = await goals.steering.fork(goal, **place, repeat=repeat or (), take_key=take_key, policy=policy)
        if new_goal.summary.forked_from is not None:
            repeated_steps.extend(await read_done_after(goals.reader.history, goal, new_goal.summary.forked_from.seq))
        if repeated_steps and not options.json:
            print(wrapped_for(_repeated_line(goal, repeated_steps), sys.stderr), file=sys.stderr)
        if resume and not options.json:
            for line in _voided_lines(await goals.reader.history(new_goal.id)):
                print(wrapped_for(line, sys.stderr), file=sys.stderr)
        return new_goal

    if resume:
        return await record_decision(options, goal, act, is_resumed=True)
    async with goals_of(options) as goals:
        new_goal = await goals.reader.look_into(await act(goals))
        history = await goals.reader.history(new_goal.id)
    state = fold(history)
    key_lines = [f"It has the start key of {goal}."] if take_key else []
    data = new_goal.wire() | {"voided": list(state.begun.voided), "done_again": repeated_steps}
    return CommandResult(
        data, [_forked_line(new_goal), *_voided_lines(history), *key_lines, *next_lines(options, new_goal)]
    )


def _forked_line(fork: GoalView) -> str:
    """Describe the origin of a fork."""
    origin = fork.summary.forked_from
    return f"{fork.id} continues from event {origin.seq} of {origin.goal_id}." if origin else fork.id


def _place(before: str | None, after: str | None, at: str | None) -> _Place:
    """Return the place of a fork for `Goals.fork`.

    Raises: Invalid
    """
    is_number = at is not None and at.isdecimal() and at.isascii() and len(at) <= _MOST_DIGITS
    if at is not None and (not is_number or int(at) < 1):
        raise Invalid(f"--at must be the seq of an event, as `perdure goal show` prints it, got {at[:40]!r}.")
    return {"before": before, "after": after, "at": None if at is None else int(at)}


def _repeated_line(goal: str, steps: Sequence[str]) -> str:
    more = f" and {len(steps) - _SHOWN} more" if len(steps) > _SHOWN else ""
    were = "was" if len(steps) == 1 else "were"
    return one_line(f"{', '.join(steps[:_SHOWN])}{more} {were} done in {goal} and will be done again.")


def _voided_lines(history: Sequence[Event]) -> list[str]:
    """Return lines about the calls that a new fork repeats because they were open at its origin."""
    lines = []
    for call in fold(history[:-1]).open_calls.values():
        effect = f" ({call.call.effect})" if isinstance(call.call, ToolCall) else ""
        lines.append(one_line(f"Void, and called again in the fork: {call.call.call_id}{effect}"))
    return lines


async def diff(
    options: Options,
    *,
    goal: SeenGoal,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The other goal: its id, or a unique prefix of it.")],
) -> CommandResult:
    """Show where the histories of two goals differ: exit 0 if they are the same, 1 if not.

    Times and durations are not compared.
    """
    async with open_home(options.settings(), debug=options.verbose) as p:
        views = [await p.goals.find(name) for name in (goal, other)]
        left, right = [view.summary.goal_id for view in views]
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
        return CommandResult(data, [f"{left} and {right} have the same {events}."])
    upto = f"are the same up to event {parted.common}" if parted.common else "differ from the first event"
    lines = [f"{left} and {right} {upto}.", *_origin_lines(views)]
    return CommandResult(
        data, [*lines, _side_by_side(left, parted.left, right, parted.right), *_more(parted)], exit_code=1
    )


def _origin_lines(found: Sequence[GoalView]) -> list[str]:
    forks = [(view.summary.goal_id, view.summary.forked_from) for view in found]
    return [f"{name} is a fork of {origin.goal_id} at event {origin.seq}." for name, origin in forks if origin]


def _side_by_side(left: str, lefts: Sequence[Event], right: str, rights: Sequence[Event]) -> Table:
    pairs = zip_longest(_event_rows(lefts), _event_rows(rights), fillvalue=("", ""))
    return Table(["seq", left, "seq", right], [[*one, *two] for one, two in pairs])


def _event_rows(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Return seq and description of events; the `goal` event of a fork is omitted."""
    return [(str(event.seq), _describe(event)) for event in events if event.seq == 1 or event.type != "goal"][:_SHOWN]


def _more(parted: Parted) -> list[str]:
    left_out = max(len(parted.left), len(parted.right)) - _SHOWN
    return [f"{left_out} more events; --json prints all."] if left_out > 0 else []


def _describe(event: Event) -> str:
    """Return a short description of an event."""
    content = event.content()
    subject = next((str(content[name]) for name in ("call_id", "name", "reason", "text") if content.get(name)), "")
    kind = content.get("kind") or content.get("decision") or event.type
    detail = next((content[name] for name in _SHOWN_FIELDS if content.get(name) is not None), None)
    text = f"{kind} {subject}" + ("" if detail is None else f": {json.dumps(detail, ensure_ascii=False)}")
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


_SHOWN_FIELDS = (
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
