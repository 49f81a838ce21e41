"""Forks goals at a point of the readable part of a history, once for each key."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perdure.app.goals.arguments.differences import difference_of_policies
from perdure.app.goals.updates.child_effects import read_child_effects
from perdure.app.wire.goal_view import GoalView
from perdure.app.workers.runner import Runner
from perdure.errors import Conflict, Damaged, Invalid, KeyTaken, NotFound
from perdure.kernel.events import Event, PolicySpec
from perdure.kernel.fold import fold
from perdure.kernel.history.forking import ForkRequest, requested_point, require_accepted, with_voided
from perdure.kernel.history.replay import DamagedEvent, require_unchanged
from perdure.kernel.journal import UNCHANGED, ForkChanges
from perdure.kernel.ports import GoalFilter, GoalStore, Summary


def fork_request(
    at: Any, *, before: Any = None, after: Any = None, before_message: Any = None, repeat: Any = ()
) -> ForkRequest:
    """Return a validated request for a fork.

    Raises: Invalid
    """
    for name, seq in (("at", at), ("before_message", before_message)):
        if seq is not None and (isinstance(seq, bool) or not isinstance(seq, int)):
            raise Invalid(f"Invalid {name}: expected the seq of an event, got {seq!r}.")
    if isinstance(repeat, str) or not isinstance(repeat, Sequence):
        raise Invalid(f"Invalid repeat: expected a list of steps, got {repeat!r}.")
    for step in (before, after, *repeat):
        if step is not None and not (isinstance(step, str) and step.strip()):
            raise Invalid(f"Invalid step: expected a name, got {step!r}.")
    request = ForkRequest(at, before, after, tuple(repeat), before_message)
    request.require_one_place()
    return request


@dataclass(frozen=True, slots=True)
class _Place:
    """The readable events of a goal, and the fork point: the seq of the last shared event."""

    events: Sequence[Event]
    seq: int
    policy: PolicySpec | None = None
    """The policy of the fork; None: that of the goal at this point."""

    @property
    def shared(self) -> Sequence[Event]:
        return self.events[: self.seq]

    @property
    def origin(self) -> tuple[str, int]:
        """The goal that recorded the last shared event, which may be an origin of the goal itself."""
        return self.events[self.seq - 1].goal_id, self.seq


class GoalForks:
    """Forks the goals of a home; `seen` returns goals with their status."""

    def __init__(
        self, store: GoalStore, runner: Runner, seen: Callable[[Sequence[Summary]], Awaitable[Sequence[GoalView]]]
    ) -> None:
        self._store = store
        self._runner = runner
        self._seen = seen

    async def fork(
        self,
        goal: Summary,
        request: ForkRequest,
        *,
        take_key: bool,
        key: str | None,
        changes: ForkChanges = UNCHANGED,
    ) -> GoalView:
        """See Goals.fork."""
        place = replace(await self._place(goal, request), policy=changes.policy)
        if key is not None and (known := await self._made_by(key, place, take_key=take_key)) is not None:
            return known
        children = await read_child_effects(self._store.load, with_voided(place.events).calls.values())
        require_accepted(place.events, place.seq, request, children)  # an existing fork needs no check
        if take_key and goal.start_key is None:
            raise Invalid(f"{goal.goal_id} has no start key that a fork could take. Fork it without --take-key.")
        try:
            if take_key:
                made = await self._runner.fork(
                    place.shared, goal.start_key, takes_key_of=goal.goal_id, call_key=key, changes=changes
                )
            else:
                made = await self._runner.fork(place.shared, key, changes=changes)
            return GoalView.of_state(made, queue="cli")
        except Conflict:  # another call with the same key may have come first
            known = None if key is None else await self._made_by(key, place, take_key=take_key)
            if known is None:
                raise
            return known

    async def _place(self, goal: Summary, request: ForkRequest) -> _Place:
        """Find the fork point; what follows it may be damaged.

        Raises: what `requested_point` raises; Damaged when the point lies in or behind the damage.
        """
        if request.at is not None and not 1 <= request.at <= goal.last_seq:
            raise Conflict(
                f"{goal.goal_id} has events 1 to {goal.last_seq}; there is no event {request.at} to fork from."
            )
        events, damage = await self._intact(goal, request)
        if damage is not None and (not events or (request.at or 0) > len(events)):
            raise damage
        try:
            return _Place(events, requested_point(events, request))
        except NotFound as error:  # a step may be recorded behind the damage
            raise damage or error from None

    async def _intact(self, goal: Summary, request: ForkRequest) -> tuple[Sequence[Event], Damaged | None]:
        """Return the events before the first damaged one, and the error for that one.

        Raises: Damaged when not even the beginning can be read.
        """
        damage: Damaged | None = None
        try:
            events: Sequence[Event] = await self._store.load(goal.goal_id)
        except Damaged as error:  # an event cannot be read, or the last one is missing
            damage = error
            events = await self._store.load(goal.goal_id, upto=request.at or goal.last_seq - 1)
        try:
            require_unchanged(events, goal.goal_id)
        except DamagedEvent as error:
            return events[: error.seq - 1], error
        return events, damage

    async def _made_by(self, key: str, place: _Place, *, take_key: bool) -> GoalView | None:
        """Return the fork with a key; a fork that took a start key has the key on its first event instead.

        Raises: KeyTaken when the key was used for something else.
        """
        known, has_taken = await self._store.started(key), False
        if known is None:
            known, has_taken = await self._fork_called(key, place), True
        if known is None:
            return None
        goal_id, seq = place.origin
        origin = known.forked_from
        is_same_place = origin is not None and (origin.goal_id, origin.seq) == (goal_id, seq)
        if not is_same_place or has_taken != take_key:
            taking = " that takes its start key" if take_key else ""
            raise KeyTaken(
                f"The key {key!r} already started {known.goal_id}, which is not a fork of {goal_id} at event"
                f" {seq}{taking}. Use another key."
            )
        made = fold(await self._store.load(known.goal_id, upto=seq + 1)).begun
        policy = made.policy or PolicySpec()
        if place.policy is not None and policy != place.policy:
            difference = difference_of_policies(policy, place.policy)
            raise KeyTaken(f"The key {key!r} already started {known.goal_id}, {difference}. Use another key.")
        return replace((await self._seen([known]))[0], is_news=False)

    async def _fork_called(self, key: str, place: _Place) -> Summary | None:
        where, before = GoalFilter(forked_from=place.origin[0]), None
        while page := await self._store.list_goals(where=where, before=before):
            for fork in page:
                posted = await self._store.posted_as(fork.goal_id, key)
                if posted is not None and posted.kind == "goal":
                    return fork
            before = page[-1].goal_id
        return None
