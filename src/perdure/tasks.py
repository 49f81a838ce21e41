"""Ends tasks of user code, which may ignore cancellation."""

import asyncio
from collections.abc import Collection
from typing import Any


async def end_tasks(tasks: "Collection[asyncio.Task[Any]]", within_s: float | None = None) -> "set[asyncio.Task[Any]]":
    """Cancel tasks, wait for their end, and discard their results; return those that do not end in time."""
    for task in tasks:
        task.cancel()
    if not tasks:
        return set()
    ended, left = await asyncio.wait(tasks, timeout=within_s)
    for task in ended:
        _hear_nothing(task)
    for task in left:
        leave_alone(task)
    return left


def leave_alone(task: "asyncio.Task[Any]") -> None:
    """Detach a task from its loop, because `asyncio.run` would wait for it for ever."""
    asyncio.tasks._unregister_task(task)  # noqa: SLF001 (documented for extensions of asyncio)
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 (we know that it is, and have said so)
    task.add_done_callback(_hear_nothing)


def _hear_nothing(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()
