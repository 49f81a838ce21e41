"""Reads the history of a goal, including the events that a fork shares with other goals, in full or in pages."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.errors import Damaged
from perdure.gc_pause import gc_paused
from perdure.kernel.events import size_of
from perdure.kernel.history.replay import damaged_event
from perdure.kernel.ports import Event
from perdure.store.goals.append import lost_origin, missing
from perdure.store.goals.rows import events_of
from perdure.store.raw import RawTransaction

_OWN_EVENTS = (
    "SELECT seq, id, type, iteration, timestamp, payload, hash, v FROM events"
    " WHERE goal_no = ? AND seq > ? AND seq <= ? ORDER BY seq"
)
_SIZES = "SELECT seq, {bytes} FROM events WHERE goal_no = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT 500"


@dataclass
class Page:
    """The remaining size of a page of a history, and the query for the sizes of events."""

    bytes_left: int
    sizes: str
    is_empty: bool = True
    is_full: bool = False

    @classmethod
    def of(cls, max_bytes: int, payload_bytes: str) -> "Page":
        """Return a page of a size; `payload_bytes` is the SQL expression for the size of a payload."""
        return cls(max_bytes, _SIZES.format(bytes=payload_bytes))

    def end(self, raw: RawTransaction, goal_no: int, after: int, until: int) -> int:
        """Return the seq of the last event of a goal that fits on the page."""
        while rows := raw.execute(self.sizes, goal_no, after, until).fetchall():
            for seq, payload_bytes in rows:
                self.bytes_left -= size_of(payload_bytes)
                if self.bytes_left < 0 and not self.is_empty:
                    self.is_full = True
                    return after
                after, self.is_empty = seq, False
        return until


def load(raw: RawTransaction, goal_id: str, after: int, upto: int | None, page: Page | None = None) -> list[Event]:
    """Return the events of a goal: for a fork, first those of its origins up to their fork points, then its own."""
    events: list[Event] = []
    for part in reversed(_parts(raw, goal_id, after)):
        until = part.end if upto is None else min(part.end, upto)
        if page is not None:
            until = page.end(raw, part.goal_no, after, until)
        with gc_paused():
            own = events_of(part.owner, raw.execute(_OWN_EVENTS, part.goal_no, after, until).fetchall())
        if part.owner == goal_id and after < part.end == until:
            _refuse_cut_tail(goal_id, own, part.end, part.last_hash)
        events += own
        if page is not None and page.is_full:
            break
    return events


@dataclass(frozen=True, slots=True)
class _Part:
    """The events of one goal, up to a seq, in the history of that goal or of a fork."""

    owner: str
    goal_no: int
    end: int
    last_hash: bytes


def _parts(raw: RawTransaction, goal_id: str, after: int) -> list[_Part]:
    """Return the parts of a history after a seq: first the goal's own, then those of its origins."""
    query = (
        "SELECT goal_no, last_seq, last_hash, forked_from_id, forked_from_seq"
        " FROM goals WHERE id = ? AND deleted_at IS NULL"
    )
    parts: dict[str, _Part] = {}
    owner: str | None = goal_id
    left_at: int | None = None
    while owner is not None and (left_at is None or after < left_at):
        row = raw.first(query, owner)
        if row is None:
            raise missing(owner) if owner == goal_id else lost_origin(goal_id, owner)
        if owner in parts:
            raise Damaged(f"{goal_id} is a fork of {owner}, which is recorded as a fork of itself.")
        goal_no, last_seq, last_hash, origin_id, origin_seq = row
        end = last_seq if left_at is None else min(left_at, last_seq)
        parts[owner] = _Part(owner, goal_no, end, last_hash)
        owner, left_at = origin_id, end if origin_seq is None else min(end, origin_seq)
    return list(parts.values())


def _refuse_cut_tail(goal_id: str, own: Sequence[Event], last_seq: int, last_hash: bytes) -> None:
    if not own or own[-1].seq != last_seq:
        raise damaged_event(goal_id, last_seq, "is missing; it was the last")
    if own[-1].hash != last_hash:
        raise damaged_event(goal_id, last_seq, "was changed")
