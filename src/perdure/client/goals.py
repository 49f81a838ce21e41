"""Goals from elsewhere: start, look, follow, decide."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack, cast

import orjson
from websockets.exceptions import InvalidStatus, WebSocketException

from perdure.app.wire.resources.parameters import ForkPlace, GoalFilters, require_names
from perdure.client.connection import Connection, refused, told_by_frame
from perdure.client.sending import one_step, plain_step
from perdure.client.sockets import open_socket
from perdure.errors import Unavailable
from perdure.statuses import FINAL

if TYPE_CHECKING:
    from perdure.app.wire.resources import frames as wire
    from perdure.app.wire.resources.events import Event
    from perdure.app.wire.resources.goals import Approval, Goal, GoalDetail

_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""How long a connection that broke is not tried again, after one failure, two, and so on."""


class Goals:
    """What can be done with goals."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(
        self,
        *,
        text: str | None = None,
        plan: str | None = None,
        flow: str | None = None,
        key: str | None = None,
        **more: Any,
    ) -> "Goal":
        """Start a goal in the server; with a key, once. `more` is args, bot, limits, policy, shell, tags.

        Raises: Invalid; Exhausted; Unavailable.
        """
        what = {"text": text, "plan": plan, "flow": flow}
        body = {name: value for name, value in what.items() if value is not None} | more
        return await self._goal("POST", "", body, key=key)

    async def get(self, goal_id: str, *, prefix: bool = False) -> "GoalDetail":
        """Return a goal in detail: its calls, what it waits for, its limits and its children.

        With `prefix`, the beginning of an id is enough if only one goal has it.

        Raises: NotFound; Conflict when several ids begin so.
        """
        query = {"prefix": True if prefix else None}
        return cast("GoalDetail", await self._connection.data("GET", f"/goals/{plain_step(goal_id)}", query=query))

    async def each(self, *, limit: int = 50, **filters: Unpack[GoalFilters]) -> "AsyncIterator[Goal]":
        """Give all goals that match all filters, the newest first; a page has `limit` goals.

        `flow` is the name of a flow, or `module:function`; `parent` is the id of the goal that started others as its
        children. `since` and `until` choose by the time of creation: a datetime, or a text such as `2h`.

        Raises: Invalid
        """
        require_names(filters, GoalFilters)
        times = {"since": _moment(filters.get("since")), "until": _moment(filters.get("until"))}
        query: dict[str, Any] = {**filters, **times, "limit": limit}
        async for goal in self._connection.each("/goals", **query):
            yield cast("Goal", goal)

    async def events(self, goal_id: str, *, after_seq: int = 0) -> "AsyncIterator[Event]":
        """Give the events of a goal that are there, after a seq."""
        path = f"/goals/{plain_step(goal_id)}/events"
        while True:
            found = await self._connection.data("GET", path, query={"after_seq": after_seq})
            for event in found:
                yield event
                after_seq = event["seq"]
            if not found:
                return

    async def follow(
        self,
        goal_id: str,
        *,
        after_seq: int = 0,
        tries: int = 12,
        on_progress: "Callable[[wire.CallProgress], object] | None" = None,
    ) -> "AsyncIterator[Event]":
        """Yield the events of a goal after a seq, then new ones, each once and in order, until the goal has ended.

        `on_progress` is called with what the calls of the goal report while they run in the server, between the events.
        Of reports that follow each other quickly, some are left out; none is stored.

        A broken connection is opened again, up to `tries` times in a row (twelve take about forty seconds), and
        continues after the last event that was yielded.

        Raises: NotFound; Denied; Conflict when the goal does not have the event `after_seq`; Unavailable when the
        server cannot be reached for all that time.
        """
        failures = 0
        while True:
            try:
                async for frame in self._one_connection(goal_id, after_seq):
                    if frame["type"] == "event":
                        failures, after_seq = 0, frame["event"]["seq"]
                        yield frame["event"]
                    elif frame["type"] == "progress" and on_progress is not None:
                        on_progress({"call_id": frame["call_id"], "text": frame["text"]})
                goal = await self.get(goal_id)
                if goal["status"] in FINAL and goal["last_seq"] == after_seq:
                    return
            except (OSError, WebSocketException, Unavailable) as error:
                if failures >= tries:
                    raise Unavailable(f"{self._connection.url} cannot be reached: {error}.") from error
            await asyncio.sleep(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])
            failures += 1

    async def changes(self) -> "AsyncIterator[Goal]":
        """Give the goals that have not ended, then every goal that changes, as it is then, until the connection breaks.

        Raises: Denied; Unavailable when it breaks; call it again then, which begins anew.
        """
        try:
            async with open_socket(self._connection, "/ws/events") as socket:
                async for text in socket:
                    frame = orjson.loads(text)
                    for goal in frame["goals"] if frame["type"] == "goals" else [frame["goal"]]:
                        yield cast("Goal", goal)
        except InvalidStatus as error:
            raise refused(error.response.status_code, "such socket") from error
        except (OSError, WebSocketException) as error:
            raise Unavailable(f"{self._connection.url} cannot be reached: {error}.") from error
        raise Unavailable(f"{self._connection.url} has closed the connection. Call it again.")

    async def resume(self, goal_id: str, *, limits: Mapping[str, Any] | None = None, key: str | None = None) -> "Goal":
        """Go on with a goal in the server."""
        body = {} if limits is None else {"limits": limits}
        return await self._goal("POST", f"/{plain_step(goal_id)}/resume", body, key=key)

    async def retry(
        self,
        goal_id: str,
        *,
        reason: str | None = None,
        limits: Mapping[str, Any] | None = None,
        key: str | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> "Goal":
        """Retry a failed goal in the server; with a key, once. `policy` judges the calls of models from then on.

        Raises: NotFound; Conflict when it is not failed, or cannot be retried; Exhausted; Unavailable.
        """
        given = {"reason": reason, "limits": limits, "policy": policy}
        body = {name: value for name, value in given.items() if value is not None}
        return await self._goal("POST", f"/{plain_step(goal_id)}/retry", body, key=key)

    async def fork(
        self,
        goal_id: str,
        at: int | None = None,
        *,
        take_key: bool = False,
        key: str | None = None,
        policy: Mapping[str, Any] | None = None,
        **place: Unpack[ForkPlace],
    ) -> "Goal":
        """Fork a goal at exactly one of: `before` a step, `after` a step, `at` an event. It does not run yet.

        `repeat` names `once` steps that may have happened and are called a second time, and steps of a cleanup.

        Raises: NotFound; Invalid; Conflict when the fork would repeat an effect, or the goal has ended there.
        """
        require_names(place, ForkPlace)
        repeat = list(place.get("repeat", ())) or None
        given = {**place, "at": at, "repeat": repeat, "take_key": take_key or None, "policy": policy}
        body = {name: value for name, value in given.items() if value is not None}
        return await self._goal("POST", f"/{plain_step(goal_id)}/fork", body, key=key)

    async def cancel(
        self, goal_id: str, *, reason: str | None = None, now: bool = False, key: str | None = None
    ) -> "Goal":
        """End a goal; with `now`, without the cleanup of its flow."""
        body = {name: value for name, value in {"reason": reason, "now": now or None}.items() if value is not None}
        return await self._goal("POST", f"/{plain_step(goal_id)}/cancel", body, key=key)

    async def decide(
        self, goal_id: str, decision: str, *, call_id: str | None = None, value: Any = None, key: str | None = None
    ) -> "Goal":
        """Decide about a call that waits for a person."""
        body = {"decision": decision, "call_id": call_id, "value": value}
        return await self._goal("POST", f"/{plain_step(goal_id)}/decisions", body, key=key)

    async def signal(self, goal_id: str, name: str, payload: Any = None, *, key: str | None = None) -> "Goal":
        """Tell a goal something."""
        return await self._goal("POST", f"/{plain_step(goal_id)}/signals", {"name": name, "payload": payload}, key=key)

    async def approvals(self) -> "list[Approval]":
        """Return what waits for a person."""
        return [cast("Approval", each) async for each in self._connection.each("/approvals")]

    async def _goal(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> "Goal":
        headers = {"Idempotency-Key": key}
        return cast("Goal", await self._connection.data(method, f"/goals{path}", body, headers=headers))

    async def _one_connection(self, goal_id: str, after_seq: int) -> "AsyncIterator[wire.GoalFrame]":
        try:
            path = f"/ws/goals/{plain_step(goal_id)}?after_seq={one_step(str(after_seq))}"
            async with open_socket(self._connection, path) as socket:
                async for text in socket:
                    frame = orjson.loads(text)
                    if frame["type"] == "error":
                        raise told_by_frame(frame)
                    yield cast("wire.GoalFrame", frame)
        except InvalidStatus as error:
            if error.response.status_code in (429, 500, 502, 503, 504):
                raise  # it may be well again, as after a connection that broke
            raise refused(error.response.status_code, f"goal {goal_id[:60]!r}") from error


def _moment(given: datetime | str | None) -> str | None:
    """Return a time as it is sent: with its offset, because the server may be in another time zone."""
    return given.astimezone().isoformat() if isinstance(given, datetime) else given
