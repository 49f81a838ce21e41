"""Implements the ports for goals over the client."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

from perdure.app.goals.arguments.limits import Limits
from perdure.app.goals.values import Event, GoalState, InboxRow, fold
from perdure.app.wire.goal_detail import GoalDetailView
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.resources.parameters import ForkPlace, GoalFilters
from perdure.client.goals import Goals
from perdure.errors import Damaged, NotFound
from perdure.interfaces.cli.remote.connection import first
from perdure.interfaces.cli.remote.received_goals import ReceivedDetail, read_event, read_goal
from perdure.text.moments import moment_us

if TYPE_CHECKING:
    from perdure.app.wire.resources import goals as wire
    from perdure.client import CallProgress

_KEY = "key:"
_PAGE = 200


class ServerGoals:
    """Implements `GoalReader` and `GoalSteering` over the client."""

    def __init__(self, goals: Goals) -> None:
        self._goals = goals

    async def list(self, *, limit: int = 50, **filters: Unpack[GoalFilters]) -> Sequence[GoalView]:
        """See GoalReader.list."""
        found = self._goals.each(**filters, limit=min(limit, _PAGE))
        return [read_goal(goal) for goal in await first(limit, found)]

    async def shown(self, name: str) -> GoalDetailView:
        """Return a goal in detail.

        Raises: NotFound; Conflict; Damaged when its history cannot be read.
        """
        detail = await self._goals.get(await self._named(name), prefix=True)
        if detail["damage"] is not None:
            raise Damaged(detail["damage"])
        return await self._detail(detail, await self._state(detail))

    async def detail_of(self, state: GoalState) -> GoalDetailView:
        """Return a goal in detail, using a state that was folded from its followed events."""
        return await self._detail(await self._goals.get(state.goal_id), state)

    async def get(self, goal_id: str) -> GoalView:
        """See GoalReader.get."""
        return read_goal(await self._goals.get(await self._named(goal_id)))

    async def find(self, name: str) -> GoalView:
        """See GoalReader.find."""
        return read_goal(await self._goals.get(await self._named(name), prefix=True))

    async def history(self, prefix: str) -> Sequence[Event]:
        """See GoalReader.history."""
        return [read_event(event) async for event in self._goals.events(prefix)]

    async def state(self, goal_id: str) -> GoalState:
        """See GoalReader.state."""
        return fold(await self.history(goal_id))

    async def follow(
        self, goal_id: str, on_progress: "Callable[[CallProgress], object] | None" = None
    ) -> AsyncIterator[Event]:
        """Yield all existing and new events of a goal until it has ended.

        Raises: NotFound; Unavailable when the server cannot be reached for about forty seconds.
        """
        async for event in self._goals.follow(goal_id, on_progress=on_progress):
            yield read_event(event)

    async def look_into(self, goal: GoalView) -> GoalView:
        """See GoalReader.look_into."""
        detail = await self._goals.get(goal.id)
        return read_goal(detail, await self._state(detail))

    async def start(self, body: Mapping[str, Any], *, key: str | None) -> GoalView:
        """Start a goal at the server; with a key, once.

        Raises: Invalid; Denied; Exhausted; Conflict when the key was used for another goal.
        """
        return read_goal(await self._goals.create(**body, key=key))

    async def resume(self, goal_id: str, limits: Limits, *, model: str | None = None) -> GoalView:
        """Let the server run a goal; `model` is asked from then on.

        Raises: NotFound; Conflict; Invalid; Exhausted
        """
        return read_goal(await self._goals.resume(goal_id, limits=limits_wire(limits) or None, model=model))

    async def retry(
        self, goal_id: str, limits: Limits, *, reason: str | None, key: str | None, policy: str | None = None
    ) -> GoalView:
        """Let the server retry a failed goal; with a key, once.

        Raises: NotFound; Conflict; Invalid; Exhausted
        """
        sent_limits = limits_wire(limits) or None
        return read_goal(
            await self._goals.retry(goal_id, reason=reason, limits=sent_limits, key=key, policy=policy_wire(policy))
        )

    async def decide(
        self,
        goal_id: str,
        decision: str,
        *,
        call_id: str | None = None,
        value: Any = None,
        shown_sha256: str | None = None,
    ) -> GoalView:
        """See GoalSteering.decide."""
        given = {"call_id": call_id, "value": value, "shown_sha256": shown_sha256}
        return read_goal(await self._goals.decide(await self._named(goal_id), decision, **given))

    async def signal(self, goal_id: str, name: str, payload: Any = None, *, key: str | None = None) -> GoalView:
        """See GoalSteering.signal."""
        return read_goal(await self._goals.signal(await self._named(goal_id), name, payload, key=key))

    async def cancel(self, goal_id: str, *, reason: str | None = None, now: bool = False) -> GoalView:
        """See GoalSteering.cancel."""
        return read_goal(await self._goals.cancel(await self._named(goal_id), reason=reason, now=now))

    async def fork(
        self,
        goal_id: str,
        at: int | None = None,
        *,
        take_key: bool = False,
        policy: str | None = None,
        **place: Unpack[ForkPlace],
    ) -> GoalView:
        """See GoalSteering.fork."""
        name, judged_by = await self._named(goal_id), policy_wire(policy)
        return read_goal(await self._goals.fork(name, at, take_key=take_key, policy=judged_by, **place))

    async def _named(self, name: str) -> str:
        """Return the id of the goal with a start key, for `key:KEY`; any other name is returned unchanged.

        Raises: NotFound
        """
        if not name.startswith(_KEY):
            return name
        async for goal in self._goals.each(key=name.removeprefix(_KEY), limit=1):
            return goal["id"]
        raise NotFound(f"No goal was started with the key {name.removeprefix(_KEY)!r}.")

    async def _state(self, detail: "wire.GoalDetail") -> GoalState:
        """Return the state at the last event of `detail`; newer events are ignored."""
        return fold(list(islice(await self.history(detail["id"]), detail["last_seq"])))

    async def _detail(self, detail: "wire.GoalDetail", state: GoalState) -> GoalDetailView:
        children = await self.list(parent=detail["id"], limit=_PAGE) if detail["children"] else ()
        pending = [
            InboxRow("", each["kind"], each["payload"], "", moment_us(each["created_at"])) for each in detail["pending"]
        ]
        return ReceivedDetail(read_goal(detail, state), pending, children[::-1], None, received=detail)


def policy_wire(preset: str | None) -> dict[str, str] | None:
    """Return the JSON form of a policy preset, or None."""
    return None if preset is None else {"preset": preset}


def limits_wire(limits: Limits) -> dict[str, Any]:
    """Return the JSON form of the limits that are set."""
    found = {"iterations": limits.iterations, "tokens": limits.tokens, "usd": limits.usd, "seconds": limits.seconds}
    return {name: value for name, value in found.items() if value is not None}
