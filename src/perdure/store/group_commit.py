"""Group commit: what waits for the writer is done in one transaction, so that many share one flush of the disk.

There is no timer: a group takes what has gathered while the one before it was written, and what those who run in the
same turn of the event loop ask for.
"""

import asyncio
import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from perdure.errors import Damaged, Unavailable
from perdure.store.executor import Settled, Threads, settle
from perdure.store.raw import Item, RawTransaction, Result, Work

_IN_A_ROW = 10
"""How many appends are written on the loop's own thread before others get their turn."""

Commit = Callable[[Callable[[RawTransaction], Any], bool], Any]
"""Runs a function in one transaction; the flag says that it is a single statement."""
Outcomes = list[Any]
"""For each item what it is answered with, or what is raised instead."""
Write = Callable[[Work[Any, Any], Sequence[Any]], Outcomes]


@dataclass(slots=True)
class _Group:
    """Items of one work that will share a transaction, and who waits for them."""

    work: Work[Any, Any]
    items: list[Any] = field(default_factory=list)
    waiting: list[tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]"]] = field(default_factory=list)
    loops: set[asyncio.AbstractEventLoop] = field(default_factory=set)
    """The event loops that will hand it to the writer: each of those whose items are in it."""
    is_posted: bool = False


class Groups:
    """The groups of one writer. `write_now` writes without waiting for anybody, or says None."""

    def __init__(
        self, writer: Threads, write: Write, write_now: Callable[[Work[Any, Any], Any], Outcomes | None] | None = None
    ) -> None:
        self._writer = writer
        self._write = write
        self._write_now = write_now
        self._open: _Group | None = None
        self._gathering = threading.Lock()
        self._in_a_row = 0

    async def add(self, work: Work[Item, Result], item: Item, *, is_only: bool = False) -> Result:
        """See RawDatabase.group."""
        self._writer.refuse_misuse()
        if is_only and self._write_now is not None and self._writer.is_idle:
            outcomes = self._write_now(work, item)
            if outcomes is not None:
                await self._let_others_run()
                return cast("Result", _result(outcomes[0]))
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        with self._gathering:
            group = self._open
            if group is None or group.work is not work:
                group = self._open = _Group(work)
            group.items.append(item)
            group.waiting.append((loop, future))
            is_first = loop not in group.loops
            group.loops.add(loop)
        if is_first:
            # After all others that ask in this turn of the loop. Every loop does it for itself: the one that opened the
            # group may be blocked by code of a user, and must not hold up the items of the others.
            loop.call_soon(self._post, group)
        return await future

    async def _let_others_run(self) -> None:
        """Give the loop back now and then: one who only ever appends, and never waits, would keep it for itself."""
        self._in_a_row += 1
        if self._in_a_row % _IN_A_ROW == 0:
            await asyncio.sleep(0)

    def seal(self) -> None:
        """Let what is asked for from now on come after something else that is asked for now.

        Raises: RuntimeError in a forked child, which would otherwise write what its parent was asked for.
        """
        self._writer.refuse_misuse()
        with self._gathering:
            group, self._open = self._open, None
        if group is not None:
            self._post(group)

    def _post(self, group: _Group) -> None:
        """Hand a group to the writer, once."""
        with self._gathering:
            is_posted, group.is_posted = group.is_posted, True
        if not is_posted:
            self._writer.post(lambda: self._do(group))

    def _do(self, group: _Group) -> Callable[[], None]:
        """Write a group as it is now, on the writer's thread."""
        with self._gathering:
            if self._open is group:
                self._open = None
        kept = [n for n, (_, future) in enumerate(group.waiting) if not future.cancelled()]
        waiting = [group.waiting[n] for n in kept]
        try:
            outcomes = self._write(group.work, [group.items[n] for n in kept]) if kept else []
        except BaseException as error:  # noqa: BLE001 (it is handed over, and raised there)
            outcomes = _for_each(error, len(kept))
        return lambda: _tell(waiting, outcomes)


def do_items(work: Work[Item, Result], items: Sequence[Item], commit: Commit) -> Outcomes:
    """Do items in one transaction; when that fails for a reason that may be one item's own, each in its own."""
    try:
        return list(commit(lambda raw: work.together(raw, items), work.is_single(items)))
    except (Unavailable, Damaged) as error:
        # a disk, a lock or a connection failed: nobody's fault, and what was stored may not even be known
        return _for_each(error, len(items))
    except Exception:  # noqa: BLE001 (whose it is, is found out next)
        return [_alone(work, item, commit) for item in items]


def _alone(work: Work[Item, Result], item: Item, commit: Commit) -> object:
    try:
        return commit(lambda raw: work.alone(raw, item), False)
    except Exception as error:  # noqa: BLE001 (it is handed over, and raised there)
        return error


def _for_each(error: BaseException, count: int) -> Outcomes:
    """Give everyone an error of their own: where it is raised is noted in it."""
    errors = [copy.copy(error) for _ in range(count)]
    for one in errors:
        one.__cause__ = error
    return list(errors)


def _result(outcome: Any) -> Any:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _tell(waiting: list[tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]"]], outcomes: Outcomes) -> None:
    """Wake each loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Settled]] = {}
    for (loop, future), outcome in zip(waiting, outcomes, strict=True):
        error = outcome if isinstance(outcome, BaseException) else None
        by_loop.setdefault(loop, []).append((future, outcome, error))
    for loop, settled in by_loop.items():
        settle(loop, settled)
