"""What somebody gave to `p.goals`, seen to before anything is looked up or recorded."""

from collections.abc import Mapping
from typing import Any, get_args

from perdure.app.views import GoalResult, GoalView
from perdure.errors import Conflict, Invalid
from perdure.kernel.ports import Once, Status

_LARGEST = 2**63 - 1


class KeyTaken(Conflict):
    """A key names one call; it was used for another, which is a mistake of whoever chose it."""

    code = "key_taken"
    title = "Key taken"
    http_status = 422


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


def same_decision(key: str, known: tuple[str, Mapping[str, Any]], given: Mapping[str, Any]) -> None:
    """See that a key is used for the decision that it was used for before; a call's id may be left out.

    Raises: KeyTaken
    """
    kind, payload = known
    if kind != "decision":
        raise KeyTaken(f"The key {key!r} was used for something else: a {kind}.")
    if not all(payload.get(name) == value for name, value in given.items() if value is not None):
        raise KeyTaken(f"The key {key!r} was used for another decision: {payload.get('decision')}.")


def require_same(once: Once, known: Once) -> None:
    """See that a key is used for the call that it was used for before.

    Raises: KeyTaken
    """
    if (once.route, once.body_sha256) != (known.route, known.body_sha256):
        raise KeyTaken(f"The key {once.key!r} was used for another call, of {known.route}. Use a new one.")


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
