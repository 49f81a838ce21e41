"""Histories that earlier versions of Perdure have written: they read, fold and are written as they were.

The files were made by running the goals with the code of that time, and are never changed.
"""

import json
from pathlib import Path

import pytest

from perdure.kernel.events import SCHEMA_VERSION, Event, GoalBegun, Head, decode, seal
from perdure.kernel.fold import fold
from perdure.kernel.history.replay import require_unchanged
from perdure.text.moments import moment_us

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*/*.jsonl"))
STATUSES = {"flow_ok": "done", "flow_fails": "failed", "flow_deadline": "done", "command": "done", "plan": "failed"}


def event_of(line: str) -> Event:
    """Read an exported event; its payload is the text that was stored."""
    head = json.loads(line)
    payload = line.partition('"payload":')[2].rpartition(',"hash":')[0]
    return Event(
        *(head["goal_id"], head["seq"], head["id"], head["type"], head["iteration"], moment_us(head["timestamp"])),
        *(payload, bytes.fromhex(head["hash"])),
        v=head["v"],
    )


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", RECORDED, ids=name_of)
def test_a_recorded_history_is_unchanged_and_folds_as_it_ended(path: Path) -> None:
    events = [event_of(line) for line in path.read_text(encoding="utf-8").splitlines()]
    require_unchanged(events, events[0].goal_id)
    state = fold(events)
    assert state.status == STATUSES[path.stem]
    assert not state.governed
    assert [call.call.call_id for call in state.calls.values() if call.is_child] == (
        ["/child#0.1"] if name_of(path) == "v2/flow_ok" else []
    )


@pytest.mark.parametrize("path", [path for path in RECORDED if path.parent.name != "v1"], ids=name_of)
def test_each_event_since_version_2_would_be_written_with_the_same_bytes(path: Path) -> None:
    head: Head | None = None
    for line in path.read_text(encoding="utf-8").splitlines():
        event = event_of(line)
        head = head or Head(event.goal_id)
        body = decode(event)
        assert isinstance(body, GoalBegun) == (event.seq == 1)
        again = seal(body, head, event_id=event.id, iteration=event.iteration, timestamp_us=event.timestamp_us)
        assert (again.type, again.payload) == (event.type, event.payload)
        assert again == event or event.v < SCHEMA_VERSION  # the version is part of an event, and of its hash
        head = Head(event.goal_id, event.seq, event.hash)
