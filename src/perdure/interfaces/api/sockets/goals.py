"""The events of one goal, and the changes of all goals, as they come."""

import logging
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Annotated

import orjson
from fastapi import APIRouter, Query, WebSocket

from perdure.app.change_feed.following import QUIET_S
from perdure.app.change_feed.history_tail import PAGE_BYTES
from perdure.app.change_feed.progress import Update
from perdure.app.goals.arguments.validate import AfterEnd
from perdure.app.wire.resources.goals import Goal
from perdure.errors import Damaged, NotFound, PerdureError
from perdure.interfaces.api.connections import Ending, Line
from perdure.interfaces.api.dependencies import Served, Surface
from perdure.interfaces.api.sockets.push import refuse, tell
from perdure.interfaces.api.streams import progress_wire, updates
from perdure.kernel.events import Event
from perdure.statuses import Status

if TYPE_CHECKING:
    from perdure.app.wire.resources import frames as wire

router = APIRouter()
log = logging.getLogger(__name__)

_PAGE = 200
_MOST_TOLD = 500
"""Number of goals whose last sent state is kept, so that an unchanged one is not sent again."""


@router.websocket("/ws/goals/{goal_id}")
async def follow_goal(
    socket: WebSocket, goal_id: str, served: Served, after_seq: Annotated[int, Query(ge=0, le=2**63 - 1)] = 0
) -> None:
    """Send every event of a goal after a seq, once and in order, then those that come; close when it has ended.

    Between the events comes what calls report that run in this server; nothing of that is stored. A seq that the goal
    has not reached gets an error frame with `last_seq`, and the socket is closed with 4409.
    """
    try:
        goal = await served.p.goals.get(goal_id)
    except PerdureError as error:
        await refuse(socket, error)
        return
    await socket.accept()
    with served.lines.open() as line:
        await tell(socket, line, _events(served, line, goal.id, after_seq))


@router.websocket("/ws/events")
async def follow_all(socket: WebSocket, served: Served) -> None:
    """Send the goals that have not ended, then every goal that changes, as it is then; no history."""
    await socket.accept()
    with served.lines.open() as line:
        await tell(socket, line, _changes(served, line))


async def _events(served: Surface, line: Line, goal_id: str, after: int) -> AsyncIterator[str]:
    """Give the frames of a goal; a browser cannot read why an upgrade was refused, so that is a frame too."""
    try:
        async for found in updates(served, line, goal_id, after):
            for update in found:
                yield _frame(update)
    except AfterEnd as error:
        yield _text({**_error(error), "last_seq": error.last_seq})
        line.end(Ending.AFTER_END)
    except Damaged as error:
        log.warning("a socket of %s ends: %s", goal_id, error.detail)
        yield _text(_error(error))
        line.end(Ending.DAMAGED)


async def _changes(served: Surface, line: Line) -> AsyncIterator[str]:
    told: dict[str, int] = {}
    async with served.p.goals.feed.subscribe() as changes:
        async for goals in _unfinished_pages(served):
            yield _text({"type": "goals", "goals": goals})
        while line.ending is None:
            changed = await changes.wait(QUIET_S)
            if changes.has_missed:
                line.end(Ending.RESYNC)
                return
            for goal_id in changed:
                try:
                    goal = await served.p.goals.changed.get(goal_id)
                except NotFound:
                    continue
                text = _text({"type": "goal", "goal": goal.wire()})
                if hash(text) != told.get(goal_id):
                    told[goal_id] = hash(text)
                    yield text
            while len(told) > _MOST_TOLD:
                del told[next(iter(told))]


async def _unfinished_pages(served: Surface) -> AsyncIterator[list[Goal]]:
    """Give the goals that have not ended, in pages of a limited size; one page when there are none."""
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
    """Return the frame of an event, with its payload exactly as it is stored, or that of progress."""
    if isinstance(update, Event):
        return f'{{"type":"event","event":{update.line()}}}'
    progress: wire.ProgressFrame = {"type": "progress", **progress_wire(update)}
    return _text(progress)


def _error(error: PerdureError) -> "wire.ErrorFrame":
    return {"type": "error", "code": error.code, "message": error.detail}


def _text(frame: Mapping[str, object]) -> str:
    return orjson.dumps(frame).decode()
