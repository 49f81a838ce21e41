"""The sockets for live events of one goal and for changes of all goals."""

import logging
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Annotated

import orjson
from fastapi import APIRouter, Query, WebSocket

from perdure.app.change_feed.following import QUIET_S
from perdure.app.change_feed.history_tail import PAGE_BYTES
from perdure.app.change_feed.progress import Update
from perdure.app.goals.arguments.validate import AfterEnd
from perdure.app.goals.values import Event
from perdure.app.wire.frames import frame_of
from perdure.app.wire.resources.goals import Goal
from perdure.errors import Damaged, NotFound, PerdureError
from perdure.interfaces.api.connections import CloseCode, LiveConnection
from perdure.interfaces.api.dependencies import Served, Surface
from perdure.interfaces.api.sockets.goal_commands import GoalCommands
from perdure.interfaces.api.sockets.push import converse, refuse, tell
from perdure.interfaces.api.streams import updates
from perdure.statuses import Status

if TYPE_CHECKING:
    from perdure.app.wire.resources import frames as wire

router = APIRouter()
log = logging.getLogger(__name__)

_PAGE = 200
_MOST_HASHES = 500
"""Number of goals whose last sent state is kept, so that an unchanged goal is not sent again."""


@router.websocket("/ws/goals/{goal_id}")
async def follow_goal(
    socket: WebSocket,
    goal_id: str,
    served: Served,
    after_seq: Annotated[int, Query(ge=0, le=2**63 - 1)] = 0,
    deltas: Annotated[bool, Query()] = False,
) -> None:
    """Send all events of a goal after a seq, and new ones, once and in order; close when the goal has ended.

    Progress reports of calls that run in this server are sent between the events; they are not stored. For a seq that
    the goal has not reached, an error frame with `last_seq` is sent, and the socket is closed with 4409. With
    `deltas`, answers of a model are sent while they arrive. A client may send messages, stops and decisions.
    """
    try:
        goal = await served.p.goals.get(goal_id)
    except PerdureError as error:
        await refuse(socket, error)
        return
    await socket.accept()
    with served.connections.open() as connection:
        frames = _events(served, connection, goal.id, after_seq, with_answers=deltas)
        await converse(socket, connection, frames, GoalCommands(served, goal.id))


@router.websocket("/ws/events")
async def follow_all(socket: WebSocket, served: Served) -> None:
    """Send all unfinished goals, then every goal after it changed; events are not sent."""
    await socket.accept()
    with served.connections.open() as connection:
        await tell(socket, connection, _changes(served, connection))


async def _events(
    served: Surface, connection: LiveConnection, goal_id: str, after: int, *, with_answers: bool
) -> AsyncIterator[str]:
    """Yield the frames of a goal; errors are frames, too, because a browser cannot read a rejected upgrade."""
    try:
        async for found in updates(served, connection, goal_id, after, with_answers=with_answers):
            for update in found:
                yield _frame(update)
    except AfterEnd as error:
        yield _text({**_error(error), "last_seq": error.last_seq})
        connection.end(CloseCode.AFTER_END)
    except Damaged as error:
        log.warning("closing a socket of %s: %s", goal_id, error.detail)
        yield _text(_error(error))
        connection.end(CloseCode.DAMAGED)


async def _changes(served: Surface, connection: LiveConnection) -> AsyncIterator[str]:
    sent_hashes: dict[str, int] = {}
    async with served.p.goals.feed.subscribe() as changes:
        async for goals in _unfinished_pages(served):
            yield _text({"type": "goals", "goals": goals})
        while connection.ending is None:
            changed = await changes.wait(QUIET_S)
            if changes.has_missed:
                connection.end(CloseCode.RESYNC)
                return
            for goal_id in changed:
                try:
                    goal = await served.p.goals.changed.get(goal_id)
                except NotFound:
                    continue
                text = _text({"type": "goal", "goal": goal.wire()})
                if hash(text) != sent_hashes.get(goal_id):
                    sent_hashes[goal_id] = hash(text)
                    yield text
            while len(sent_hashes) > _MOST_HASHES:
                del sent_hashes[next(iter(sent_hashes))]


async def _unfinished_pages(served: Surface) -> AsyncIterator[list[Goal]]:
    """Yield the unfinished goals in pages of a limited size; at least one page, which may be empty."""
    page, size = list[Goal](), 0
    async for goal in _unfinished(served):
        page.append(goal)
        size += len(orjson.dumps(goal))
        if size > PAGE_BYTES:
            yield page
            page, size = [], 0
    yield page


async def _unfinished(served: Surface) -> AsyncIterator[Goal]:
    statuses: tuple[Status, ...] = ("open", "waiting")
    for status in statuses:
        before = None
        while found := await served.p.goals.list(status=status, limit=_PAGE, before=before):
            for goal in found:
                yield goal.wire()
            before = found[-1].id


def _frame(update: Update) -> str:
    """Return the frame of an event, with its stored payload, or of a report."""
    if isinstance(update, Event):
        return f'{{"type":"event","event":{update.line()}}}'
    return _text(frame_of(update))


def _error(error: PerdureError) -> "wire.ErrorFrame":
    return {"type": "error", "code": error.code, "message": error.detail}


def _text(frame: Mapping[str, object]) -> str:
    return orjson.dumps(frame).decode()
