"""Calls for goals: start, show, follow, decide, signal, fork, retry and cancel them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
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
"""The pauses before reconnecting after one failure, two failures, and so on."""

_WITH_DELTAS = ("", "&deltas=1")


class Goals:
    """The goals of a server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(
        self,
        *,
        text: str | None = None,
        command: str | list[str] | None = None,
        plan: str | None = None,
        flow: str | None = None,
        key: str | None = None,
        **more: Any,
    ) -> "Goal":
        """Start a goal in the server: a text for a model, a command, a plan or a flow; with a key, once.

        `more` is args, bot, limits, model, policy, shell, tags.

        Raises: Invalid; Exhausted; Unavailable.
        """
        what = {"text": text, "command": command, "plan": plan, "flow": flow}
        body = {name: value for name, value in what.items() if value is not None} | more
        return await self._goal("POST", "", body, key=key)

    async def get(self, goal_id: str, *, prefix: bool = False) -> "GoalDetail":
        """Return a goal in detail: its calls, what it waits for, its limits and its children.

        With `prefix`, also by a unique prefix of its id.

        Raises: NotFound; Conflict when several ids match.
        """
        query = {"prefix": True if prefix else None}
        return cast("GoalDetail", await self._connection.data("GET", f"/goals/{plain_step(goal_id)}", query=query))

    async def each(self, *, limit: int = 50, **filters: Unpack[GoalFilters]) -> "AsyncIterator[Goal]":
        """Iterate over the goals that match all filters, newest first; a request fetches `limit` of them.

        `flow` is the name of a flow, or `module:function`; `parent` is the id of the goal that started others as its
        children. `since` and `until` limit the time of creation: a datetime, or a text such as `2h`.

        Raises: Invalid
        """
        require_names(filters, GoalFilters)
        times = {"since": _moment(filters.get("since")), "until": _moment(filters.get("until"))}
        query: dict[str, Any] = {**filters, **times, "limit": limit}
        async for goal in self._connection.each("/goals", **query):
            yield cast("Goal", goal)

    async def events(self, goal_id: str, *, after_seq: int = 0) -> "AsyncIterator[Event]":
        """Iterate over the stored events of a goal after a seq."""
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

        `on_progress` is called with the progress reports of calls that run in the server. Reports are not stored, and
        frequent ones are dropped.

        A broken connection is opened again, up to `tries` times in a row (twelve take about forty seconds), and
        continues after the last event that was yielded.

        Raises: NotFound; Denied; Conflict when the goal does not have the event `after_seq`; Unavailable when the
        server cannot be reached for all that time.
        """
        async with aclosing(self.frames(goal_id, after_seq=after_seq, tries=tries)) as frames:
            async for frame in frames:
                if frame["type"] == "event":
                    yield frame["event"]
                elif frame["type"] == "progress" and on_progress is not None:
                    on_progress({"call_id": frame["call_id"], "text": frame["text"]})

    async def frames(
        self, goal_id: str, *, after_seq: int = 0, deltas: bool = False, tries: int = 12
    ) -> "AsyncGenerator[wire.GoalFrame, None]":
        """Yield the frames of a goal: its events as `follow` does, and reports between them.

        With `deltas`, that is also the answer of a model while it arrives: `partial` has the text so far, each `delta`
        a piece, and the event of the turn replaces them.

        Raises: as `follow`.
        """
        failures = 0
        while True:
            try:
                # Closed here, with its socket, when a caller leaves its loop, not by the garbage collector.
                async with aclosing(self._one_connection(goal_id, after_seq, deltas=deltas)) as frames:
                    async for frame in frames:
                        if frame["type"] == "event":
                            failures, after_seq = 0, frame["event"]["seq"]
                        yield frame
                goal = await self.get(goal_id)
                if goal["status"] in FINAL and goal["last_seq"] == after_seq:
                    return
            except (OSError, WebSocketException, Unavailable) as error:
                if failures >= tries:
                    raise Unavailable(f"{self._connection.url} cannot be reached: {error}.") from error
            await asyncio.sleep(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])
            failures += 1

    async def changes(self) -> "AsyncIterator[Goal]":
        """Yield all unfinished goals, then every goal after it changed, until the connection breaks.

        Raises: Denied; Unavailable when it breaks; a new call yields all unfinished goals again.
        """
        try:
            async with open_socket(self._connection, "/ws/events") as socket:
                async for text in socket:
                    frame = orjson.loads(text)
                    for goal in frame["goals"] if frame["type"] == "goals" else [frame["goal"]]:
                        yield cast("Goal", goal)
        except InvalidStatus as error:
            raise refused(error.response.status_code, "socket /ws/events") from error
        except (OSError, WebSocketException) as error:
            raise Unavailable(f"The connection to {self._connection.url} failed: {error}.") from error
        raise Unavailable(f"{self._connection.url} has closed the connection. Call `changes` again.")

    async def resume(
        self,
        goal_id: str,
        *,
        limits: Mapping[str, Any] | None = None,
        model: str | None = None,
        compact: bool = False,
        key: str | None = None,
    ) -> "Goal":
        """Resume a goal in the server; `model` is asked from then on, in a goal for a model.

        `compact` summarises a conversation, except its first message and its last four answers, before it continues.
        """
        given = {"limits": limits, "model": model, "compact": compact or None}
        body = {name: value for name, value in given.items() if value is not None}
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
        """Retry a failed goal in the server; with a key, once. `policy` applies to calls of a model from then on.

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

        `repeat` names `once` steps that may have happened and are called again, and steps of a cleanup.

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
        """Cancel a goal; with `now`, without the cleanup of its flow."""
        body = {name: value for name, value in {"reason": reason, "now": now or None}.items() if value is not None}
        return await self._goal("POST", f"/{plain_step(goal_id)}/cancel", body, key=key)

    async def decide(
        self,
        goal_id: str,
        decision: str,
        *,
        call_id: str | None = None,
        value: Any = None,
        shown_sha256: str | None = None,
        key: str | None = None,
    ) -> "Goal":
        """Decide a call that waits for a person. `approve` needs the `shown_sha256` of the call in `approvals`.

        Raises: NotFound; Invalid, also for an approval without the hash; Conflict when no open call takes the decision,
        or another call was shown.
        """
        body = {"decision": decision, "call_id": call_id, "value": value, "shown_sha256": shown_sha256}
        return await self._goal("POST", f"/{plain_step(goal_id)}/decisions", body, key=key)

    async def signal(self, goal_id: str, name: str, payload: Any = None, *, key: str | None = None) -> "Goal":
        """Send a signal to a goal."""
        return await self._goal("POST", f"/{plain_step(goal_id)}/signals", {"name": name, "payload": payload}, key=key)

    async def approvals(self) -> "list[Approval]":
        """Return the calls of all goals that wait for a person."""
        return [cast("Approval", each) async for each in self._connection.each("/approvals")]

    async def _goal(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> "Goal":
        headers = {"Idempotency-Key": key}
        return cast("Goal", await self._connection.data(method, f"/goals{path}", body, headers=headers))

    async def _one_connection(
        self, goal_id: str, after_seq: int, *, deltas: bool
    ) -> "AsyncGenerator[wire.GoalFrame, None]":
        try:
            path = f"/ws/goals/{plain_step(goal_id)}?after_seq={one_step(str(after_seq))}{_WITH_DELTAS[deltas]}"
            async with open_socket(self._connection, path) as socket:
                async for text in socket:
                    frame = orjson.loads(text)
                    if frame["type"] == "error":
                        raise told_by_frame(frame)
                    yield cast("wire.GoalFrame", frame)
        except InvalidStatus as error:
            if error.response.status_code in (429, 500, 502, 503, 504):
                raise  # a later attempt may succeed, as after a broken connection
            raise refused(error.response.status_code, f"goal {goal_id[:60]!r}") from error


def _moment(given: datetime | str | None) -> str | None:
    """Return a time as text with its offset, because the server may be in another time zone."""
    return given.astimezone().isoformat() if isinstance(given, datetime) else given
