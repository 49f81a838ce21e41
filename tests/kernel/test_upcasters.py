"""Events of version 1: read as if they had been written today, and their hashes still hold."""

from typing import Any

import orjson
import pytest

from perdure.errors import Conflict
from perdure.kernel.events import NO_HASH, Event, ForkedFrom, GoalBegun, MindSpec, Termination, decode, expected_hash
from perdure.kernel.fold import fold
from perdure.kernel.history.compare import compare
from perdure.kernel.history.replay import require_unchanged

_LIMITS = {"iterations": None, "tokens": None, "usd": None, "seconds": None}


def goal_1(mind: dict[str, Any], parent: dict[str, Any] | None = None) -> dict[str, Any]:
    """The payload of a goal event as version 1 wrote it."""
    return {
        "text": "nightly()",
        "mind": mind,
        "bot": None,
        "limits": _LIMITS,
        "workdir": "/w",
        "parent": parent,
        "voided": [],
    }


FLOW = {"kind": "flow", "flow": "reports:nightly", "args": {"args": [], "kwargs": {}}}


def history_1(*contents: tuple[str, dict[str, Any]]) -> list[Event]:
    """Events of version 1, chained by hash."""
    events: list[Event] = []
    previous = NO_HASH
    for seq, (name, content) in enumerate(contents, 1):
        bare = Event("g", seq, f"{seq:032x}", name, 0, seq, orjson.dumps(content).decode(), NO_HASH, v=1)
        previous = expected_hash(bare, previous)
        events.append(Event("g", seq, bare.id, name, 0, seq, bare.payload, previous, v=1))
    return events


def test_a_flow_of_version_1_has_a_name_and_the_place_of_its_code() -> None:
    (event,) = history_1(("goal", goal_1(FLOW)))
    body = decode(event)
    assert isinstance(body, GoalBegun)
    assert body.mind == MindSpec("flow", flow="nightly", at="reports:nightly", args={"args": [], "kwargs": {}})
    assert (body.forked_from, body.parent, body.tags) == (None, None, ())


def test_a_fork_of_version_1_knows_where_it_was_made() -> None:
    (event,) = history_1(("goal", goal_1({"kind": "command"}, {"goal_id": "before", "seq": 4})))
    body = decode(event)
    assert isinstance(body, GoalBegun)
    assert body.forked_from == ForkedFrom("before", 4)


def test_a_termination_of_version_1_does_not_say_which_steps_failed() -> None:
    *_, event = history_1(
        ("goal", goal_1({"kind": "command"})), ("termination", {"reason": "failed", "detail": "no", "value": None})
    )
    assert decode(event) == Termination("failed", "no", steps=None)


@pytest.mark.parametrize(
    ("reason", "status"),
    [("done", "done"), ("failed", "failed"), ("fatal_error", "failed"), ("cancelled", "cancelled")],
)
def test_a_history_of_version_1_is_unchanged_and_folds_to_todays_status(reason: str, status: str) -> None:
    events = history_1(
        ("goal", goal_1({"kind": "command"})), ("termination", {"reason": reason, "detail": None, "value": None})
    )
    require_unchanged(events, "g")
    assert fold(events).status == status


def test_a_goal_of_version_1_is_compared_with_one_of_today_by_its_meaning() -> None:
    old = history_1(("goal", goal_1(FLOW)))
    new = goal_1({"kind": "flow", "flow": "nightly", "at": "reports:nightly", "args": FLOW["args"]}) | {
        "forked_from": None
    }
    today = Event("h", 1, "0" * 32, "goal", 0, 9, orjson.dumps(new).decode(), NO_HASH)
    assert compare(old, [today]).common == 1


def test_an_event_of_a_newer_version_is_refused_as_such() -> None:
    with pytest.raises(Conflict, match="newer Perdure"):
        decode(Event("g", 1, "0" * 32, "goal", 0, 1, "{}", NO_HASH, v=4))
