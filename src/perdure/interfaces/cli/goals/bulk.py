"""Applies one operation to several goals: selects them by filters, asks for confirmation, and changes them in order."""

import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from perdure.app import open_home
from perdure.app.goals.arguments.policies import PolicySpec
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.goals.updates.posts import CLEANING_UP
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.resources.parameters import GoalFilters
from perdure.errors import Conflict, Denied, Invalid, PerdureError
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.confirm import ask_yes_no, can_ask
from perdure.interfaces.cli.goals.display.listing import status_of
from perdure.interfaces.cli.goals.filters import filter_text
from perdure.interfaces.cli.goals.run_ui.flows import in_folder_of
from perdure.interfaces.cli.output.terminal import MIN_COLUMNS, cut_to, one_line
from perdure.interfaces.cli.output.times import short_moment
from perdure.statuses import FINAL

AllUnfinished = Annotated[bool, typer.Option("--all", help="All unfinished goals.")]
AllFailed = Annotated[bool, typer.Option("--all", help="All failed goals.")]
AllFinished = Annotated[bool, typer.Option("--all", help="All finished goals.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
_PAGE = 200
_EXAMPLES = 5
_REPORTED = {"failed": "failed again"}

_Groups = dict[str, list[dict[str, Any]]]

Act = Callable[[Goals, GoalView], Awaitable[GoalView | None]]
"""Applies a verb to one goal, and returns the changed goal, or None if it was deleted."""


@dataclass(frozen=True)
class Verb:
    """An operation on several goals."""

    name: str
    done: str
    """The past participle of the name, for reports: `cancelled`."""
    applies_to: tuple[str, ...]
    """The default statuses, without --status."""
    act: Act
    is_run: bool = False
    """Whether it runs the goals, so that each ends, waits or fails."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The possible results, which are the lists of the JSON form."""
        return ("done", "waiting", "failed", "refused") if self.is_run else ("done", "refused")

    def group_of(self, after: GoalView | None) -> str:
        """Return the group of a goal after the operation."""
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
        return GoalView.of_state(result.state, queue=result.queue, start_key=result.start_key)

    return Verb("retry", "retried", ("failed",), retry_one, is_run=True)


def selects_several(goal: str | None, filters: GoalFilters, *, is_all: bool, is_narrowed: bool = False) -> bool:
    """Return whether the arguments of a command select several goals instead of one.

    Raises: Invalid when they select both, or none.
    """
    is_chosen = bool(filters) or is_all or is_narrowed
    if goal is not None and is_chosen:
        raise Invalid("Pass the id of a goal, or filters (or --all) for several, not both.")
    if goal is None and not is_chosen:
        raise Invalid("Pass the id of a goal, or filters such as --status, or --all for all goals.")
    return goal is None


async def change_many(
    options: Options,
    verb: Verb,
    filters: GoalFilters,
    *,
    yes: bool,
    is_selected: Callable[[GoalView], bool] = lambda _goal: True,
) -> CommandResult:
    """Apply a verb to each matching goal in order, and report changed and rejected goals.

    Exit 1 if a goal was rejected or failed again. A goal whose state has changed since the confirmation is rejected.

    Raises: Invalid without `yes` and without a terminal; Denied when the answer is no. Nothing is changed then.
    """
    if options.server is not None:
        raise Invalid("With a server, pass the id of one goal. Change several goals on the machine of the home.")
    async with open_home(options.settings(), debug=options.verbose) as p:
        selected = [goal for goal in await _matching(p.goals, verb, filters) if is_selected(goal)]
        if not selected:
            note = f"No goal to {verb.name} matches {filter_text(filters)}." if filters else f"No goal to {verb.name}."
            return CommandResult({group: [] for group in verb.groups}, [note])
        _confirm(options, verb, selected, is_confirmed=yes)
        groups = await _apply_to_each(p.goals, verb, selected)
    has_failures = bool(groups["refused"] or groups.get("failed"))
    return CommandResult(dict(groups), [*map(one_line, _report(verb, groups))], exit_code=int(has_failures))


def _report(verb: Verb, groups: _Groups) -> Iterator[str]:
    """Yield the numbers of changed goals by result, and the rejected goals."""
    refused = groups["refused"]
    changed = {group: each for group, each in groups.items() if group != "refused" and each}
    if changed:
        statuses = Counter(each["status"] for entries in changed.values() for each in entries)
        counts = ", ".join(f"{number} {_REPORTED.get(status, status)}" for status, number in statuses.items())
        total = f"{_count(sum(map(len, changed.values())))} {verb.done}"
        yield f"{total}: {counts}." if verb.is_run else f"{total}."
    for group in ("waiting", "failed"):
        yield from (f"  {each['id']}  {each['detail']}" for each in changed.get(group, ()))
    if refused:
        yield f"Rejected: {_count(len(refused))}."
    for each in refused:
        is_named = each["reason"].startswith(each["id"])
        yield f"  {each['reason']}" if is_named else f"  {each['id']}: {each['reason']}"


async def _matching(goals: Goals, verb: Verb, filters: GoalFilters) -> list[GoalView]:
    all_filters: GoalFilters = {"status": verb.applies_to, **filters}
    selected: list[GoalView] = []
    before = None
    while page := await goals.list(limit=_PAGE, before=before, **all_filters):
        selected += page
        before = page[-1].id
    return selected


def _confirm(options: Options, verb: Verb, selected: Sequence[GoalView], *, is_confirmed: bool) -> None:
    """Print the number of selected goals with examples, and ask for confirmation.

    Raises: Invalid; Denied.
    """
    if not options.json:
        print(f"{_count(len(selected))} to {verb.name}:", file=sys.stderr)
        now_us = time.time_ns() // 1000
        for line in _aligned(
            [goal.id, status_of(goal, now_us), short_moment(goal.summary.created_us, now_us), goal.text]
            for goal in selected[:_EXAMPLES]
        ):
            print(cut_to(f"  {line}", MIN_COLUMNS), file=sys.stderr)
        if len(selected) > _EXAMPLES:
            print(f"  … and {len(selected) - _EXAMPLES} more", file=sys.stderr, flush=True)
    if is_confirmed:
        return
    if not can_ask(options):
        raise Invalid(f"Nothing was {verb.done}: there is no terminal to ask for confirmation. Use --yes.")
    if not ask_yes_no(f"{verb.name.capitalize()} {_count(len(selected))}?"):
        raise Denied(f"Nothing was {verb.done}.")


async def _apply_to_each(goals: Goals, verb: Verb, selected: Sequence[GoalView]) -> _Groups:
    groups: _Groups = {group: [] for group in verb.groups}
    for goal in selected:
        try:
            _require_same(goal, await goals.get(goal.id))
            after = await verb.act(goals, goal)
        except PerdureError as error:
            groups["refused"].append({"id": goal.id, "code": error.code, "reason": error.detail})
        else:
            entry = {"id": goal.id, "status": None if after is None else after.status}
            if verb.is_run and after is not None:
                entry["detail"] = _detail(after)
            groups[verb.group_of(after)].append(entry)
    return groups


def _detail(goal: GoalView) -> str | None:
    """Return why a goal failed, what it waits for, or what resumes it; None for a goal that is done."""
    if goal.status == "done":
        return None
    if goal.status == "interrupted":  # the flow of a script is reopened, and run by the script
        return f"interrupted; `perdure goal show {goal.id}` prints what resumes it"
    return goal.detail or goal.reason or status_of(goal, time.time_ns() // 1000)


def _require_same(confirmed: GoalView, now: GoalView) -> None:
    """Compare a goal with its state at the confirmation; new events of a running goal are ignored.

    Raises: Conflict when its state has changed.
    """
    has_moved = not now.is_running and confirmed.summary.last_seq != now.summary.last_seq
    if confirmed.status != now.status or has_moved:
        change = (
            f"was {confirmed.status} and is {now.status} now" if confirmed.status != now.status else "has new events"
        )
        raise Conflict(f"The goal has changed since the confirmation: it {change}. Run the command again.")


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*shown, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in shown]


def _count(number: int) -> str:
    return f"{number} goal{'' if number == 1 else 's'}"
