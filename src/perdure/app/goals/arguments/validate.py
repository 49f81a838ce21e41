"""Validates the arguments of `p.goals`, before anything is read or recorded."""

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Literal, get_args

from perdure.app.wire.goal_view import GoalResult, GoalView
from perdure.errors import Conflict, Invalid, KeyTaken
from perdure.kernel.calls.children import RESERVED_PREFIX
from perdure.kernel.calls.decisions import denied
from perdure.kernel.events import Decision, Limits, content_of
from perdure.kernel.ports import Posted, Summary
from perdure.text.storable import is_storable

OnFailed = Literal["raise", "retry", "return"]
"""The reaction of `run` to a failed goal: raise, retry once and then raise, or return its result."""

LONGEST_KEY = 200
KEY_PREFIX = "key:"
"""The prefix of a start key that is used instead of an id; no id begins with it."""
LONGEST_REASON = 2000
MOST_TAGS = 20
TAG = r"[\w.:/=@+-]{1,64}"
"""The form of a tag: letters and digits of any language, and `_.:/=@+-`."""
_LARGEST = 2**63 - 1


class AfterEnd(Conflict):
    """The seq is beyond the last event: the goal has fewer events than the caller has seen."""

    def __init__(self, summary: Summary, after: int) -> None:
        super().__init__(
            f"{summary.goal_id} has events up to {summary.last_seq}, so there are none after {after}. The seq is of"
            " another goal, or the database is an older copy. Read the goal again from the beginning."
        )
        self.last_seq = summary.last_seq

    def problem(self) -> dict[str, Any]:
        """See PerdureError.problem."""
        return super().problem() | {"last_seq": self.last_seq}


LONGEST_MESSAGE = 100_000


def require_seq(summary: Summary, seq: int) -> None:
    """Check that a goal has an event with a seq, or that the seq is 0.

    Raises: AfterEnd
    """
    if seq > summary.last_seq:
        raise AfterEnd(summary, seq)


def goal_id(given: Any) -> str:
    """Validate the id of a goal, or a prefix of one.

    Raises: Invalid
    """
    if isinstance(given, GoalResult | GoalView):
        raise Invalid(f"Invalid id: expected a string, got a {type(given).__name__}. Pass its `.id`, {given.id!r}.")
    if not isinstance(given, str) or not is_storable(given):
        raise Invalid(f"Invalid id: expected the id of a goal, or a prefix of it, got {given!r}.")
    return given


def named_key(given: Any) -> str | None:
    """Return the start key of `key:KEY`; None for any other name of a goal.

    Raises: Invalid when the key is empty or invalid.
    """
    if not isinstance(given, str) or not given.startswith(KEY_PREFIX):
        return None
    return key(given.removeprefix(KEY_PREFIX), is_childs=True)


def id_or_key(given_id: Any, given_key: Any) -> str:
    """Return the name of a goal from its id or its key.

    Raises: Invalid
    """
    if (given_id is None) == (given_key is None):
        raise Invalid("Pass exactly one of the id and the key of a goal.")
    if given_key is None:
        return goal_id(given_id)
    return f"{KEY_PREFIX}{key(given_key, is_childs=True)}"


def key(given: Any, *, is_childs: bool = False) -> str | None:
    """Validate an optional key; only keys of children may begin with the reserved prefix.

    Raises: Invalid
    """
    if given is None:
        return None
    is_text = isinstance(given, str) and bool(given.strip())
    if not is_text or len(given) > LONGEST_KEY or any(unicodedata.category(each) in ("Cc", "Cs") for each in given):
        found = given[:40] if isinstance(given, str) else given
        raise Invalid(f"A key must have 1 to {LONGEST_KEY} characters and no control characters, got {found!r}.")
    text: str = given
    if text.startswith(RESERVED_PREFIX) and not is_childs:
        raise Invalid(f"Invalid key {text[:80]!r}: keys that begin with {RESERVED_PREFIX!r} are reserved for children.")
    return text


def reason(given: Any) -> str | None:
    """Validate an optional reason.

    Raises: Invalid
    """
    if given is None:
        return None
    if not isinstance(given, str) or not 1 <= len(given) <= LONGEST_REASON or not is_storable(given):
        found = f"{len(given)} characters: {given[:40]!r}" if isinstance(given, str) else repr(given)
        raise Invalid(
            f"Invalid reason: expected a string of 1 to {LONGEST_REASON} characters without NUL, got {found}."
        )
    return given


def require_same_decision(key: str, known: Posted, given: Mapping[str, Any]) -> None:
    """Check that a key is repeated with the same decision; the id of the call may be omitted.

    Raises: KeyTaken
    """
    kind, payload = known.kind, known.payload
    if kind not in ("decision", "tool_output"):
        raise KeyTaken(f"The key {key!r} was used for something else: a {kind}.")
    is_denial = kind == "tool_output"  # its key is on the last event of a denial, which is the outcome of the call
    is_same = _is_denial(payload, given) if is_denial else _agree(payload, given)
    if not is_same:
        decided = "deny" if is_denial else payload.get("decision")
        raise KeyTaken(f"The key {key!r} was used for another decision: {decided}.")


def _agree(payload: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    return all(payload.get(name) == value for name, value in given.items() if value is not None)


def _is_denial(outcome: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Return whether an outcome is that of a denial."""
    expected = content_of(denied(Decision(outcome["call_id"], "deny", given["value"])))
    is_its_call = given["call_id"] in (None, outcome["call_id"])
    return is_its_call and given["decision"] == "deny" and outcome.get("error") == expected["error"]


def number(name: str, given: Any, least: int) -> int:
    """Validate a whole number.

    Raises: Invalid
    """
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= _LARGEST:
        raise Invalid(f"{name} must be a whole number of at least {least}, got {given!r}.")
    return given


def tags(given: Any) -> tuple[str, ...]:
    """Validate the tags of a goal.

    Raises: Invalid
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise Invalid(f"Invalid tags: expected a list of strings, got {given!r}.")
    found = tuple(given)
    wrong = [tag for tag in found if not (isinstance(tag, str) and re.fullmatch(TAG, tag))]
    if wrong:
        expected = "1 to 64 characters, each a letter, a digit or one of _.:/=@+-"
        raise Invalid(f"Invalid tag: expected {expected}, got {str(wrong[0])[:80]!r}.")
    if len(found) > MOST_TAGS:
        raise Invalid(f"Invalid tags: expected at most {MOST_TAGS}, got {len(found)}.")
    if len(set(found)) < len(found):
        twice = next(tag for tag in found if found.count(tag) > 1)
        raise Invalid(f"Invalid tags: {twice!r} is repeated.")
    return found


def limits(given: Any) -> Limits:
    """Validate limits: each must be a number above 0.

    Raises: Invalid
    """
    if given is None:
        return Limits()
    if not isinstance(given, Limits):
        raise Invalid(f"Invalid limits: expected perdure.Limits(iterations, tokens, usd, seconds), got {given!r}.")
    for name in (field.name for field in fields(Limits)):
        value = getattr(given, name)
        kinds = int if name in ("iterations", "tokens") else int | float
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        if value is not None and not (is_number and math.isfinite(value) and value > 0):
            raise Invalid(f"Invalid limit {name}: expected a number above 0, got {value!r}.")
    return given


def on_failed(given: Any) -> OnFailed:
    """Validate the reaction to a failed goal.

    Raises: Invalid
    """
    known: tuple[OnFailed, ...] = get_args(OnFailed)
    if given not in known:
        raise Invalid(f"Invalid on_failed: expected one of {', '.join(known)}, got {given!r}.")
    found: OnFailed = given
    return found


def timeout_s(given: Any) -> float | None:
    """Validate an optional number of seconds.

    Raises: Invalid
    """
    is_number = isinstance(given, int | float) and not isinstance(given, bool) and given >= 0
    if given is not None and not is_number:
        raise Invalid(f"Invalid timeout_s: expected a number of seconds from 0, got {given!r}.")
    return None if given is None else float(given)


def require_message(text: object) -> None:
    """Validate a message to a model.

    Raises: Invalid
    """
    if not isinstance(text, str) or not text.strip():
        raise Invalid("A message must be a string that is not empty.")
    if len(text) > LONGEST_MESSAGE:
        raise Invalid(f"A message must have at most {LONGEST_MESSAGE:,} characters, got {len(text):,}.")
    if not is_storable(text):
        raise Invalid("A message contains characters that cannot be stored: NUL or lone surrogates.")
