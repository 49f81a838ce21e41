"""Ends tasks that run code which is not ours, and may not let itself be ended."""

import asyncio
from collections.abc import Collection
from typing import Any


async def end_tasks(tasks: "Collection[asyncio.Task[Any]]", within_s: float | None = None) -> "set[asyncio.Task[Any]]":
    """Cancel tasks, wait for their end, and hear nothing more of them; return those that do not end in time."""
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
    """Detach a task that does not end from its loop: `asyncio.run` would wait for it forever."""
    asyncio.tasks._unregister_task(task)  # noqa: SLF001 (documented, for those who extend asyncio)
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 (we know that it is, and have said so)
    task.add_done_callback(_hear_nothing)


def _hear_nothing(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()
