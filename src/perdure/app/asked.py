"""What somebody gave to `p.goals`, seen to before anything is looked up or recorded."""

from typing import Any, get_args

from perdure.app.views import GoalResult, GoalView
from perdure.errors import Invalid
from perdure.kernel.ports import Status

_LARGEST = 2**63 - 1


def goal_id(given: Any) -> str:
    """Return the id of a goal, or its beginning.

    Raises: Invalid
    """
    if isinstance(given, GoalResult | GoalView):
        raise Invalid(f"The id of a goal was expected, found a {type(given).__name__}: give its `.id`, {given.id!r}.")
    if not isinstance(given, str):
        raise Invalid(f"The id of a goal, or its beginning, was expected, found {given!r}.")
    return given


def key(given: Any) -> str | None:
    """Return a key, if there is one.

    Raises: Invalid
    """
    if given is not None and not (isinstance(given, str) and given.strip()):
        raise Invalid(f"A key is a text that is not empty, found {given!r}.")
    return given


def number(name: str, given: Any, least: int) -> int:
    """Return a whole number.

    Raises: Invalid
    """
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= _LARGEST:
        raise Invalid(f"{name} is a whole number from {least}, found {given!r}.")
    return given


def status(given: Any) -> Status | None:
    """Return what goals are listed by, if by anything.

    Raises: Invalid
    """
    known: tuple[Status, ...] = get_args(Status)
    if given is not None and given not in known:
        raise Invalid(f"status is one of {', '.join(known)} (open: running or interrupted), found {given!r}.")
    found: Status | None = given
    return found
