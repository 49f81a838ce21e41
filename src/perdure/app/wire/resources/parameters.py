"""Parameters that every surface takes in the same way: what goals are chosen by, and where a goal is forked.

A module of its own, which imports no other resource: the client needs the names when it runs.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict


class GoalFilters(TypedDict, total=False):
    """What goals are chosen by: all filters that are given and not None.

    `status` is one word or several: running, interrupted, waiting, done, failed, cancelled, or open (running or
    interrupted). `flow` is the name of a flow, or `module:function`. `key`, `bot`, `tag` and `queue` match exactly;
    `parent` is the id of the goal that started others as its children. `since` and `until` choose by the time of
    creation, from the first up to but without the second: a datetime, a date or time as text (local unless it has an
    offset), or a duration such as `2h`, counted back from now.
    """

    status: str | Sequence[str] | None
    flow: str | None
    key: str | None
    bot: str | None
    tag: str | None
    parent: str | None
    since: datetime | str | None
    until: datetime | str | None
    queue: str | None


class ForkPlace(TypedDict, total=False):
    """Where a goal is forked, beside `at`, the number of an event; and what the fork may repeat.

    `before` a step's first event, so that the step is called again; `after` the event that settled a step;
    `before_message` the number of a person's message. `repeat` names `once` steps that may have happened and are called
    a second time, and steps of a cleanup.
    """

    before: str | None
    after: str | None
    before_message: int | None
    repeat: Sequence[str]


def require_names(given: Mapping[str, object], form: type) -> None:
    """Raise TypeError for a name that a form of parameters does not have, as Python does for a signature."""
    known = form.__annotations__
    if unknown := [name for name in given if name not in known]:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}; expected any of {', '.join(known)}")
