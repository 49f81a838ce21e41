"""Parameters that all surfaces share: filters of goals and records, and the place of a fork.

It imports no other resource, because the client needs it at run time.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict

from perdure.memory.query.parameters import RecordFilters, RelatedTo

__all__ = ["ForkPlace", "GoalFilters", "RecordFilters", "RelatedTo", "require_names"]


class GoalFilters(TypedDict, total=False):
    """Filters of goals; a goal must match all filters that are not None.

    `status` is one or several of: running, interrupted, waiting, done, failed, cancelled, or open (running or
    interrupted). `flow` is the name of a flow, or `module:function`. `key`, `bot`, `tag` and `queue` match exactly;
    `parent` is the id of the goal that started others as its children. `since` (inclusive) and `until` (exclusive)
    limit the time of creation: a datetime, a date or time as text (local unless it has an offset), or a duration such
    as `2h`, counted back from now.
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
    """The place of a fork, as an alternative to `at`, the seq of an event; and the steps that it may repeat.

    `before` is a step that is called again, `after` a step whose outcome is kept, `before_message` the seq of a message
    of a person. `repeat` names `once` steps that may have happened and are called again, and steps of a cleanup.
    """

    before: str | None
    after: str | None
    before_message: int | None
    repeat: Sequence[str]


def require_names(given: Mapping[str, object], form: type) -> None:
    """Raise TypeError for an unknown parameter, as Python does for a signature."""
    known = form.__annotations__
    if unknown := [name for name in given if name not in known]:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}; expected any of {', '.join(known)}")
