"""The parameters of one append, and the errors that reject it: the same for every store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.errors import Conflict, Damaged, Invalid, NotFound
from perdure.kernel.calls.children import end_key
from perdure.kernel.events import NO_HASH, is_same_content
from perdure.kernel.ports import Ended, Event, ForkedFrom, InboxRow, Summary
from perdure.statuses import FINAL, Status
from perdure.text.storable import require_storable
from perdure.text.strict_json import dump_json

LONGEST_KEY = 200
_SAID = frozenset({"goal", "message", "model_turn"})
"""The types of events that change the overview of a conversation; a fork begins with that of its origin."""


@dataclass(slots=True)
class Append:
    """One call of `StateStore.append_event`. Treated as immutable; a frozen dataclass would be too slow."""

    goal_id: str
    events: tuple[Event, ...]
    expected_seq: int
    expected_hash: bytes
    epoch: int
    summary: Summary
    key: str | None
    worker: str | None
    taken: frozenset[str]
    release: bool
    takes_key_of: str | None = None

    @property
    def makes_goal(self) -> bool:
        return bool(self.events) and self.events[0].type == "goal"

    @property
    def reopens(self) -> bool:
        return bool(self.events) and self.events[0].type == "reopened"

    @property
    def ends(self) -> bool:
        return self.summary.is_final

    @property
    def is_plain(self) -> bool:
        """Whether the append only advances an existing goal."""
        return not (self.taken or self.makes_goal or self.reopens or self.ends_child or self.changes_overview)

    @property
    def changes_overview(self) -> bool:
        """Whether something was said in a conversation."""
        return self.summary.overview is not None and any(event.type in _SAID for event in self.events)

    @property
    def ends_child(self) -> bool:
        """Whether a child goal ends, so that its end is posted to the parent in the same transaction."""
        return self.summary.parent is not None and self.summary.is_final and bool(self.events)

    def end_of_child(self, row_id: str) -> InboxRow:
        """Return the inbox row for the parent of a child that ends."""
        payload = {"goal_id": self.goal_id, "seq": self.seq}
        return InboxRow(row_id, "child", payload, end_key(self.goal_id, self.seq), self.summary.updated_us)

    @property
    def seq(self) -> int:
        """The last seq of the goal after the append."""
        return self.expected_seq + len(self.events)

    @property
    def hash(self) -> bytes | None:
        """The hash of the last event, which covers all events before it; None without events."""
        return self.events[-1].hash if self.events else None

    @property
    def is_in_order(self) -> bool:
        """Whether the events follow `expected_seq` without a gap; those of a fork, the event that it is forked at."""
        seq = self.expected_seq
        for event in self.events:
            seq += 1
            if event.seq != seq:
                return False
        if not self.makes_goal:
            return True
        forked_from = self.summary.forked_from
        if forked_from is None:
            return (self.expected_seq, self.expected_hash) == (0, NO_HASH)
        return self.expected_seq == forked_from.seq

    def accepts(self, status: Status) -> bool:
        """Return whether a goal with a status accepts these events; see `can_reopen`."""
        is_child = self.summary.parent is not None
        return can_reopen(status, is_child=is_child) if self.reopens else status not in FINAL

    def require_sense(self) -> None:
        """Check the goal of the events, and the keys; the key of a post was checked when it was posted.

        Raises: Invalid
        """
        if self.key is not None and not self.taken:
            require_key(self.key)
        if self.summary.start_key is not None:
            require_key(self.summary.start_key)
        if self.takes_key_of is not None and (self.summary.start_key is None or not self.makes_goal):
            raise Invalid(f"Only a new goal with a start key can take the key of {self.takes_key_of}.")
        for event in self.events:
            if event.goal_id != self.goal_id:
                raise Invalid(f"Events of another goal cannot be appended to {self.goal_id}.")

    def refusal(self, status: Status, last_seq: int, last_hash: bytes, epoch: int) -> Conflict:
        """Return the error of an append to a goal in this state."""
        if not self.is_in_order:
            return Conflict(f"The events for {self.goal_id} do not follow event {self.expected_seq} without a gap.")
        if self.makes_goal:
            return Conflict(f"The goal {self.goal_id} already exists.")
        if not self.accepts(status):
            return not_failed(self.goal_id, status) if self.reopens else Ended(self.goal_id)
        if epoch != self.epoch:
            return Conflict(f"{self.goal_id} has another owner (epoch {epoch}, expected {self.epoch}).")
        return self._seq_refusal(last_seq, last_hash)

    def _seq_refusal(self, last_seq: int, last_hash: bytes) -> Conflict:
        """Return the error of an append to a goal at another event; a history only grows, unless it was replaced."""
        if last_seq > self.expected_seq:
            return Conflict(f"{self.goal_id} is at event {last_seq} by now, not at {self.expected_seq}.")
        if last_seq < self.expected_seq or last_hash != self.expected_hash:
            return replaced(self.goal_id, self.expected_seq)
        return self.not_in_inbox()

    def not_in_inbox(self) -> Conflict:
        return Conflict(f"A row that this append takes was already removed from the inbox of {self.goal_id}.")

    def key_was_used(self) -> Conflict:
        return Conflict(f"The start key {self.summary.start_key!r} is already used by another goal.")

    def key_was_taken(self) -> Conflict:
        return Conflict(
            f"The start key {self.summary.start_key!r} no longer belongs to {self.takes_key_of}: another fork took it."
        )

    def other_events(self) -> Conflict:
        return Conflict(f"The key {self.key} was used for other events of {self.goal_id}.")


def require_key(key: object) -> None:
    """Check that a key is a text that every database stores unchanged.

    Raises: Invalid
    """
    if not isinstance(key, str):
        raise Invalid(f"A key is a string; found {type(key).__name__}.")
    if not 1 <= len(key) <= LONGEST_KEY:
        raise Invalid(f"A key has 1 to {LONGEST_KEY} characters; found {len(key)}.")
    require_storable(key, "A key")


def can_reopen(status: Status, *, is_child: bool) -> bool:
    """Return whether a goal can be reopened: it failed, or it is a cancelled child."""
    return status == "failed" or (status == "cancelled" and is_child)


def not_failed(goal_id: str, status: Status) -> Conflict:
    """Return the error for a goal that cannot be reopened."""
    return Conflict(f"Only a failed goal can be retried. {goal_id} is {status}.")


def replaced(goal_id: str, seq: int) -> Conflict:
    """Return the error for a history that differs from the one a worker wrote: the database was restored."""
    return Conflict(f"The history of {goal_id} was replaced (event {seq} is not the one this worker wrote).")


def no_such_event(origin: ForkedFrom) -> NotFound:
    """Return the error for a fork at an event that does not exist."""
    return NotFound(f"There is no event {origin.seq} of {origin.goal_id} to fork from.")


def missing(goal_id: str) -> NotFound:
    """Return the error for a goal that does not exist."""
    return NotFound(f"There is no goal {goal_id}.")


def lost_origin(goal_id: str, origin_id: str) -> Damaged:
    """Return the error for a fork whose origin is missing; a goal with forks cannot be deleted."""
    return Damaged(f"{goal_id} is a fork of {origin_id}, which no longer exists.")


def require_same_post(goal_id: str, post: InboxRow, known_kind: str, known_payload: Mapping[str, Any]) -> None:
    """Check that a post equals an earlier post with the same key, or the event that it became.

    Raises: Conflict
    """
    match post.kind, known_kind:
        case ("decision", "decision") | ("signal", "signal") | ("message", "message"):
            is_same = is_same_content(post.kind, known_payload, post.payload)
        case ("cancel", "cancel"):  # the row of the inbox, or its event
            is_same = all(known_payload.get(name) == post.payload.get(name) for name in ("reason", "now"))
        case ("cancel", "termination") | ("child", "child" | "tool_output") | ("stop", "stop" | "model_turn"):
            is_same = True
        case _:  # a decision may become many kinds of event
            is_same = post.kind == "decision" and known_kind not in ("signal", "cancel")
    if not is_same:
        raise Conflict(
            f"{goal_id} has another request with the key {post.key!r}. Use another key, or repeat the same request."
        )


def the_one(prefix: str, found: Sequence[Summary], deleted: Sequence[str] = ()) -> Summary:
    """Return, of goals whose ids begin with a prefix, the one with exactly that id, or the only one.

    `found` is sorted by the length of ids.

    Raises: NotFound, which names a single deleted goal; Conflict; Invalid for an empty prefix
    """
    if not prefix:
        raise Invalid("The id of a goal, or its beginning, was expected; it is empty.")
    if not found and len(deleted) == 1:
        raise NotFound(f"{deleted[0]} was deleted; nothing of it is left.")
    if not found:
        raise NotFound(f"There is no goal whose id begins with {prefix!r}.")
    if len(found) > 1 and found[0].goal_id != prefix:
        raise Conflict(f"Several goals begin with {prefix!r}, {found[0].goal_id} and {found[1].goal_id} among them.")
    return found[0]


def json_text(payload: dict[str, Any]) -> str:
    """Return the payload of a post as JSON text.

    Raises: Invalid
    """
    return dump_json(payload, "A value").decode()
