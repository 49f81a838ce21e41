"""Waits of a flow that are not recorded: its own timers, and unrecorded work.

A flow may wait for a deadline of asyncio, or for work that is not a step. No event in the history wakes it, so the loop
checks it again after some time. A goal is parked only if its flow certainly waits for nothing but requests.

**Timers at replay.** A recorded timer fires where it fired in the first run. A replayed flow that cannot take the next
outcome waits for something unrecorded, which may end otherwise than in the first run: for a file, or a request of its
own. A sleep is not waited for again then. A history that was begun before timers were recorded (version 2) does not
tell which deadlines have fired: there, all timers are fired in the order of their dates.
"""

import asyncio
from collections.abc import Collection
from typing import Any

from perdure.minds.flow.execution.branches import Join
from perdure.minds.flow.execution.event_loop import FlowCallbacks
from perdure.minds.flow.execution.progress import Progress
from perdure.minds.flow.execution.recorded_steps import Recorded

_MOST_TIMERS = 20
"""The number of timers that are fired to find out whether one of them cancels an unrecorded step."""

_WITHOUT_TIMERS = 2
"""The last version of histories without the timers that have fired."""
_CHECK_AGAIN_S = 0.05
_GRACE_S = 0.05
"""How long a goal is not parked after an activity of its flow, if the flow may wait for unrecorded work."""
_REPLAY_PATIENCE_S = 30.0
"""How long a resume waits for unrecorded work of a flow before the flow requests the next recorded step."""
_REPLAY_GRACE_S = 1.0
"""The same for a flow that also waits for requests: then it is more likely that its code was changed."""
_REPLAY_PAUSE_S = 0.01


async def advance(progress: Progress, callbacks: FlowCallbacks) -> bool:
    """Let a replayed function continue: fire its next timers, or wait for its unrecorded work.

    Return whether the function may have continued.
    """
    if callbacks.shows_timers and callbacks.has_ready():
        await callbacks.rest()
        if not callbacks.is_being_cancelled():  # anyio keeps the function ready until what it has cancelled ends
            return True
    if fire_unrecorded(progress):
        await callbacks.rest()
        return True
    patience_s = _REPLAY_GRACE_S if progress.requests else _REPLAY_PATIENCE_S
    is_idle = asyncio.get_running_loop().time() - progress.active_s > patience_s
    if is_idle or _waits_for_requests(progress):
        return False
    await asyncio.sleep(_REPLAY_PAUSE_S)
    await callbacks.rest()
    return True


def fire_unrecorded(progress: Progress) -> bool:
    """Fire the next timers of a replayed function that is stuck now; return whether there were any."""
    timers = progress.timers
    if timers is None or not (chosen := timers.earliest(of_all=not _records_timers(progress))):
        return False
    if progress.recorded is not None and not _records_timers(progress):
        progress.recorded.has_guessed_timers = True
    progress.reached_us = max(progress.reached_us, chosen[0].date_us)
    timers.fire(chosen)
    progress.note_activity(asyncio.get_running_loop())
    return True


def fire_passed(progress: Progress) -> bool:
    """Fire timers that may have passed in the first run; return whether there were any. A new history records them."""
    return not _records_timers(progress) and fire_unrecorded(progress)


def _records_timers(progress: Progress) -> bool:
    return progress.state is None or progress.state.first_v > _WITHOUT_TIMERS


def next_check(progress: Progress) -> tuple[float | None, "asyncio.Future[None] | None"]:
    """Return how to find out that the function does something by itself: after some seconds, and by a future.

    Without seconds, the goal may be parked. Both are None if the function certainly waits for its requests.
    """
    timer_s = None if progress.timers is None else progress.timers.next_s()
    if timer_s is None and progress.requests and _waits_for_requests(progress):
        return None, None
    news = progress.next_news()
    if timer_s is not None:
        return timer_s + 0.001, news
    is_fresh = asyncio.get_running_loop().time() - progress.active_s < _GRACE_S
    return _CHECK_AGAIN_S if is_fresh or not progress.requests else None, news


def _waits_for_requests(progress: Progress) -> bool:
    """Return whether the body of the flow certainly waits for its requests, and for nothing else."""
    answers = {id(request.answer) for request in progress.requests.values()}
    return _waits_for(progress.body, answers)


def _waits_for(waiting: Any, answers: Collection[int]) -> bool:
    """Return whether a future, a task or a gather certainly waits only for the answers with these ids."""
    while isinstance(waiting, asyncio.Task) and not waiting.done():
        waiting = getattr(waiting, "_fut_waiter", None)  # private: asyncio has no public API for it
    children = waiting.lines if isinstance(waiting, Join) else getattr(waiting, "_children", None)  # of asyncio.gather
    if isinstance(children, list):
        return all(child.done() or _waits_for(child, answers) for child in children)
    return id(waiting) in answers


async def settle_doubts(progress: Progress, recorded: Recorded, callbacks: FlowCallbacks, next_seq: float) -> None:
    """Find requests of the function that are not in the history.

    In the first run, a deadline may have cancelled such a request before it was begun; so timers that a history without
    timers does not tell are fired first.
    """
    for _ in range(_MOST_TIMERS):
        if not (recorded.has_difference_before(next_seq) and fire_passed(progress)):
            break
        await callbacks.rest()
    recorded.settle_doubts(next_seq)
