"""One verb for several goals: chosen by filters, counted, confirmed, then done one by one."""

import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from perdure.app import open_home
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.goals.updates.posts import CLEANING_UP
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.resources.parameters import GoalFilters
from perdure.errors import Conflict, Denied, Invalid, PerdureError
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.confirm import can_ask, is_sure
from perdure.interfaces.cli.goals.display.listing import status_of
from perdure.interfaces.cli.goals.filters import told
from perdure.interfaces.cli.goals.run_ui.flows import in_folder_of
from perdure.interfaces.cli.output.terminal import MIN_COLUMNS, cut_to, one_line
from perdure.interfaces.cli.output.times import short_moment
from perdure.kernel.events import PolicySpec
from perdure.statuses import FINAL

All = Annotated[bool, typer.Option("--all", help="Without an id and without filters: all goals that it applies to.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
_PAGE = 200
_EXAMPLES = 5
_AGAIN = {"failed": "failed again"}

_Groups = dict[str, list[dict[str, Any]]]

Act = Callable[[Goals, GoalView], Awaitable[GoalView | None]]
"""Does a verb to one goal, and returns it as it is then, or None when it is gone."""


@dataclass(frozen=True)
class Verb:
    """Something that can be done to several goals."""

    name: str
    done: str
    """The participle of the name."""
    applies_to: tuple[str, ...]
    """The statuses that are meant when no status is given."""
    act: Act
    is_run: bool = False
    """Whether it runs a goal, which is then done, waits or has failed."""

    @property
    def groups(self) -> tuple[str, ...]:
        """What can become of a goal: the lists of the JSON form."""
        return ("done", "waiting", "failed", "refused") if self.is_run else ("done", "refused")

    def group_of(self, after: GoalView | None) -> str:
        """Return the group of a goal that it was done to."""
        if not self.is_run or after is None or after.status == "done":
            return "done"
        return "failed" if after.is_final else "waiting"


def cancel_verb(reason: str | None = None, *, now: bool = False) -> Verb:
    """Return the verb that cancels goals; a flow cleans up where it was started."""

    async def cancel_one(goals: Goals, goal: GoalView) -> GoalView:
        with in_folder_of(goal.summary):
            seen = await goals.cancel(goal.id, reason=reason, now=now)
        if not seen.is_final:
            pending = f"The cancel of {goal.id} is pending: its worker has not ended it yet."
            raise Conflict(pending if seen.is_running else f"{goal.id}: {seen.note or CLEANING_UP}")
        return seen

    return Verb("cancel", "cancelled", ("open", "waiting"), cancel_one)


async def delete_one(goals: Goals, goal: GoalView) -> None:
    """Delete a goal."""
    await goals.delete(goal.id)


DELETE = Verb("delete", "deleted", tuple(sorted(FINAL)), delete_one)


def retry_verb(reason: str | None = None, policy: PolicySpec | None = None) -> Verb:
    """Return the verb that reopens failed goals and runs each before the next; a flow runs where it was started."""

    async def retry_one(goals: Goals, goal: GoalView) -> GoalView:
        with in_folder_of(goal.summary):
            result = await goals.reopen(goal.id, RunOptions(parks_for_person=True), reason=reason, policy=policy)
        return GoalView.of_state(result.state, queue=result.queue)

    return Verb("retry", "retried", ("failed",), retry_one, is_run=True)


def is_of_several(goal: str | None, filters: GoalFilters, *, is_all: bool, is_narrowed: bool = False) -> bool:
    """Tell whether a command means several goals, not one.

    Raises: Invalid when it says both or nothing.
    """
    is_chosen = bool(filters) or is_all or is_narrowed
    if goal is not None and is_chosen:
        raise Invalid("Give the id of a goal, or filters (or --all) for several, not both.")
    if goal is None and not is_chosen:
        raise Invalid("Give the id of a goal, or filters such as --status; --all means all goals that it applies to.")
    return goal is None


async def change_many(
    options: Options,
    verb: Verb,
    filters: GoalFilters,
    *,
    yes: bool,
    is_wanted: Callable[[GoalView], bool] = lambda _goal: True,
) -> Answer:
    """Do a verb to every goal that matches, one by one, and report what was done and what was refused.

    Exit 1 when one was refused or failed again. A goal whose state has changed since it was counted is refused.

    Raises: Invalid when a person cannot be asked and `yes` is not given; Denied when the answer is no. Nothing is
    changed then.
    """
    if options.server is not None:
        raise Invalid("With a server, give the id of one goal; several are changed where the home is.")
    async with open_home(options.settings(), debug=options.verbose) as p:
        found = [goal for goal in await _matching(p.goals, verb, filters) if is_wanted(goal)]
        if not found:
            said = f"No goal to {verb.name} matches {told(filters)}." if filters else f"No goal to {verb.name}."
            return Answer({group: [] for group in verb.groups}, [said])
        _confirm(options, verb, found, is_confirmed=yes)
        groups = await _each(p.goals, verb, found)
    is_wrong = bool(groups["refused"] or groups.get("failed"))
    return Answer(dict(groups), [*map(one_line, _report(verb, groups))], exit_code=int(is_wrong))


def _report(verb: Verb, groups: _Groups) -> Iterator[str]:
    """Say how many goals were changed, what became of them, and which were refused."""
    refused = groups["refused"]
    changed = {group: each for group, each in groups.items() if group != "refused" and each}
    if changed:
        counts = ", ".join(f"{len(each)} {_AGAIN.get(group, group)}" for group, each in changed.items())
        said = f"{_count(sum(map(len, changed.values())))} {verb.done}"
        yield f"{said}: {counts}." if verb.is_run else f"{said}."
    for group in ("waiting", "failed"):
        yield from (f"  {each['id']}  {each['detail']}" for each in changed.get(group, ()))
    if refused:
        yield f"Refused: {_count(len(refused))}."
    for each in refused:
        is_named = each["reason"].startswith(each["id"])
        yield f"  {each['reason']}" if is_named else f"  {each['id']}: {each['reason']}"


async def _matching(goals: Goals, verb: Verb, filters: GoalFilters) -> list[GoalView]:
    wanted: GoalFilters = {"status": verb.applies_to, **filters}
    found: list[GoalView] = []
    before = None
    while page := await goals.list(limit=_PAGE, before=before, **wanted):
        found += page
        before = page[-1].id
    return found


def _confirm(options: Options, verb: Verb, found: Sequence[GoalView], *, is_confirmed: bool) -> None:
    """Print how many goals are meant, with examples, and ask.

    Raises: Invalid; Denied.
    """
    if not options.json:
        print(f"{_count(len(found))} to {verb.name}:", file=sys.stderr)
        now_us = time.time_ns() // 1000
        for line in _aligned(
            [goal.id, status_of(goal, now_us), short_moment(goal.summary.created_us, now_us), goal.text]
            for goal in found[:_EXAMPLES]
        ):
            print(cut_to(f"  {line}", MIN_COLUMNS), file=sys.stderr)
        if len(found) > _EXAMPLES:
            print(f"  … and {len(found) - _EXAMPLES} more", file=sys.stderr, flush=True)
    if is_confirmed:
        return
    if not can_ask(options):
        raise Invalid(f"Nothing was {verb.done}: there is no terminal to ask for confirmation. Give --yes.")
    if not is_sure(f"{verb.name.capitalize()} {_count(len(found))}?"):
        raise Denied(f"Nothing was {verb.done}.")


async def _each(goals: Goals, verb: Verb, found: Sequence[GoalView]) -> _Groups:
    groups: _Groups = {group: [] for group in verb.groups}
    for goal in found:
        try:
            _require_same(goal, await goals.get(goal.id))
            after = await verb.act(goals, goal)
        except PerdureError as error:
            groups["refused"].append({"id": goal.id, "code": error.code, "reason": error.detail})
        else:
            told = {"id": goal.id, "status": None if after is None else after.status}
            if verb.is_run and after is not None:
                told["detail"] = _detail(after)
            groups[verb.group_of(after)].append(told)
    return groups


def _detail(goal: GoalView) -> str | None:
    """Say why a goal failed or what it waits for; nothing of one that is done."""
    if goal.status == "done":
        return None
    return goal.detail or goal.reason or status_of(goal, time.time_ns() // 1000)


def _require_same(counted: GoalView, now: GoalView) -> None:
    """Raises: Conflict when a goal is not as it was counted; the events of a running one are no change."""
    has_moved = not now.is_running and counted.summary.last_seq != now.summary.last_seq
    if counted.status != now.status or has_moved:
        change = f"was {counted.status}, is {now.status}" if counted.status != now.status else "has new events"
        raise Conflict(f"Its state has changed since it was counted: {change}.")


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Write rows as lines whose cells begin at the same columns."""
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*shown, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in shown]


def _count(number: int) -> str:
    return f"{number} goal{'' if number == 1 else 's'}"
