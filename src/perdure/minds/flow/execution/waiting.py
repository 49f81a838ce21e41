"""When a flow waits for something that is not recorded: its own timers, and unrecorded work.

A flow may wait for a deadline of asyncio, or for work that is not a step. Nothing in the history wakes it up, so the
loop looks at it again after some time. A goal is parked only when its flow certainly waits for requests alone.

**Timers at replay.** A flow that is run again may have to reach a deadline of asyncio before it asks for what was
recorded next. In the first run that deadline has passed. So its timers are fired at once, one at a time and in the
order of the first run, whenever the flow can take no outcome.
"""

import asyncio
from collections.abc import Collection
from typing import Any

from perdure.minds.flow.execution.branches import Join
from perdure.minds.flow.execution.event_loop import FlowCallbacks
from perdure.minds.flow.execution.progress import Progress
from perdure.minds.flow.execution.recorded_steps import Recorded

_MOST_TIMERS = 20
"""How many timers are fired to find out whether one of them cancels a step that was never recorded."""

_LOOK_AGAIN_S = 0.05
_GRACE_S = 0.05
"""How long a goal is not parked after its flow did something, while the flow may wait for something unrecorded."""
_REPLAY_PATIENCE_S = 30.0
"""How long a resume waits for unrecorded work of a flow that has to finish before the flow asks for what is recorded.
"""
_REPLAY_GRACE_S = 1.0
"""The same for a flow that also waits for requests: more likely its code was changed."""
_REPLAY_PAUSE_S = 0.01


async def advance(progress: Progress, callbacks: FlowCallbacks) -> bool:
    """Let a function that is run again get to what was recorded: a deadline that had passed passes at once.

    Tell whether anything has happened. Work of the function that is not recorded is waited for.
    """
    if callbacks.shows_timers and callbacks.has_ready():  # a timer has fired by itself
        await callbacks.rest()
        return True
    if fire_timers(progress, callbacks):
        await callbacks.rest()
        return True
    patience_s = _REPLAY_GRACE_S if progress.requests else _REPLAY_PATIENCE_S
    is_idle = asyncio.get_running_loop().time() - progress.active_s > patience_s
    if is_idle or _waits_for_requests(progress):
        return False
    await asyncio.sleep(_REPLAY_PAUSE_S)
    await callbacks.rest()
    return True


def fire_timers(progress: Progress, callbacks: FlowCallbacks) -> bool:
    """Fire the next timers of the function at once; tell whether there were any."""
    callbacks.date_timers(progress.reached_us)
    fired_us = callbacks.fire_next_timers()
    if fired_us is None:
        return False
    progress.reached_us = max(progress.reached_us, fired_us)
    progress.note_activity(asyncio.get_running_loop())
    return True


def look_again_s(progress: Progress, callbacks: FlowCallbacks) -> float | None:
    """Return when to look at the function again though nothing has been recorded: it has work of its own."""
    timer_s = callbacks.next_timer_s()
    if timer_s is not None:
        return timer_s + 0.001
    if not progress.requests:
        return _LOOK_AGAIN_S
    is_fresh = asyncio.get_running_loop().time() - progress.active_s < _GRACE_S
    return _LOOK_AGAIN_S if is_fresh and not _waits_for_requests(progress) else None


def _waits_for_requests(progress: Progress) -> bool:
    """Tell whether the body of the flow certainly waits for its requests, and for nothing else."""
    answers = {id(request.answer) for request in progress.requests.values()}
    return _waits_for(progress.body, answers)


def _waits_for(waiting: Any, answers: Collection[int]) -> bool:
    """Tell whether a future, a task or a gather certainly waits for some answers only; their ids are given."""
    while isinstance(waiting, asyncio.Task) and not waiting.done():
        waiting = getattr(waiting, "_fut_waiter", None)  # what a task waits for has no public name
    children = waiting.lines if isinstance(waiting, Join) else getattr(waiting, "_children", None)  # of asyncio.gather
    if isinstance(children, list):
        return all(child.done() or _waits_for(child, answers) for child in children)
    return id(waiting) in answers


async def settle_doubts(progress: Progress, recorded: Recorded, callbacks: FlowCallbacks, next_seq: float) -> None:
    """Find what the function asks for and the history does not have.

    A deadline may have passed in the first run before what it cancelled was begun: then it passes now.
    """
    for _ in range(_MOST_TIMERS):
        if not (recorded.has_difference_before(next_seq) and fire_timers(progress, callbacks)):
            break
        await callbacks.rest()
    recorded.settle_doubts(next_seq)
