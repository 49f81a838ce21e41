"""`perdure goal fork | diff`: go another way from a point in a history, and see where two histories part."""

import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated

import typer

from perdure.app import open_home
from perdure.app.goals import Goals
from perdure.app.views import GoalView
from perdure.errors import Invalid
from perdure.interfaces.cli.answer import Answer, Table
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.exact import exact
from perdure.interfaces.cli.goals.flags import Goal, Resume, SeenGoal
from perdure.interfaces.cli.goals.settle import settled
from perdure.kernel.compare import Parted
from perdure.kernel.events import Event
from perdure.minds.scripts import is_of_script, run_again

_SHOWN = 10
_WIDTH = 60


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for fn in (fork, diff):
        command(app, fn.__name__)(fn)


async def fork(
    options: Options,
    *,
    goal: Goal,
    at: Annotated[
        str,
        typer.Option("--at", metavar="SEQ", help="The last event to keep, as `perdure goal show` numbers them."),
    ],
    resume: Resume = False,
) -> Answer:
    """Make a goal that has the events 1 to SEQ of another and goes on from there; the other stays as it is.

    What is open at SEQ is decided anew.
    """
    if not (at.isdecimal() and at.isascii()) or int(at) < 1:
        raise Invalid(
            f"--at is the number of an event, as `perdure goal show` has it in its column events; found {at!r}."
        )

    async def act(goals: Goals) -> GoalView:
        return await goals.fork(goal, int(at))

    if resume:
        return await settled(options, goal, act, is_resumed=True)
    async with open_home(options.settings(), debug=options.verbose) as p:
        seen = await act(p.goals)
        begun = (await p.goals.state(seen.id)).begun
    goal_id, origin = seen.summary.goal_id, seen.summary.forked_from
    continues = f" continues from event {origin.seq} of {origin.goal_id}" if origin else ""
    runs = f"`{exact(options, 'run', '--resume', goal_id)}` runs it."
    if is_of_script(begun.mind):
        runs = f"only its script can run it, by `await p.goals.resume({goal_id!r})`: {run_again(begun)}"
    return Answer(seen.wire(), [f"{goal_id}{continues}; {runs}"])


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
    said = [f"{left} and {right} have {events} in common, and part then.", *_forked(found)]
    return Answer(data, [*said, _side_by_side(left, parted.left, right, parted.right), *_more(parted)], exit_code=1)


def _forked(found: Sequence[GoalView]) -> list[str]:
    forks = [(view.summary.goal_id, view.summary.forked_from) for view in found]
    return [f"{name} is a fork of {origin.goal_id} at event {origin.seq}." for name, origin in forks if origin]


def _side_by_side(left: str, lefts: Sequence[Event], right: str, rights: Sequence[Event]) -> Table:
    pairs = zip_longest(_told(lefts), _told(rights), fillvalue=("", ""))
    return Table(["seq", left, "seq", right], [[*one, *two] for one, two in pairs])


def _told(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Say what happened; that a fork began is no happening beside the events of its parent."""
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


_TELLING = ("error", "output", "question", "until", "signal", "payload", "arguments", "value", "detail", "mind")
