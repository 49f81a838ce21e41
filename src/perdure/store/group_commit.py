"""Group commit: the items that wait for the writer are written in one transaction, so that they share one flush.

There is no timer: a group takes what has gathered while the one before it was written, and what is submitted in the
same turn of the event loop.
"""

import asyncio
import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from perdure.errors import Damaged, Unavailable
from perdure.store.executor import Executor, Settled, settle
from perdure.store.raw import (
    CORE,
    GROUP,
    STATEMENT,
    UNFLUSHED,
    WRITE,
    Batch,
    Item,
    Kind,
    RawTransaction,
    Result,
    WouldWait,
)

if TYPE_CHECKING:
    from perdure.store.transaction import Transaction

_IN_A_ROW = 10
"""How many items are written on the loop's own thread before other tasks get their turn."""

Outcomes = list[Any]
"""For each item its answer, or the error that is raised instead."""
T = TypeVar("T")


class Transact(Protocol):
    """Runs a function in one transaction. See GroupCommit.transact."""

    def __call__(self, fn: Callable[[Any], T], kind: Kind) -> T: ...


@dataclass(slots=True)
class _Group:
    """Items of one batch that will share a transaction, and their waiters."""

    batch: Batch[Any, Any]
    items: list[Any] = field(default_factory=list)
    waiting: list[tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]"]] = field(default_factory=list)
    loops: set[asyncio.AbstractEventLoop] = field(default_factory=set)
    """The event loops that will submit it to the writer: each of those whose items are in it."""
    is_submitted: bool = False


class GroupCommit(ABC):
    """The writes of one database, on one thread; its adapter implements the transaction itself.

    Every write is one transaction, after everything that was submitted before it. Items of a batch share a transaction;
    a write between two of them seals the open group first.
    """

    transact_inline: Transact | None = None
    """Like `transact`, on the thread of an event loop; raises WouldWait instead of waiting. None: never done."""

    def __init__(self, writing: Executor) -> None:
        self._writing = writing
        self._open_group: _Group | None = None
        self._gathering = threading.Lock()
        self._inline_count = 0

    @abstractmethod
    def transact(self, fn: Callable[[Any], T], kind: Kind) -> T:
        """Run a function in one transaction on the thread that calls, and commit it.

        `fn` is given a Transaction for a kind that `is_core`, else a RawTransaction. An error of it rolls all back.
        """

    async def write(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.write."""
        self.seal()
        return await self._writing.run(self.transact, fn, CORE)

    async def write_raw(self, fn: Callable[[RawTransaction], T], *, flush: bool = True) -> T:
        """See RawDatabase.write_raw."""
        self.seal()
        return await self._writing.run(self.transact, fn, WRITE if flush else UNFLUSHED)

    async def submit(self, batch: Batch[Item, Result], item: Item, *, is_only: bool = False) -> Result:
        """See RawDatabase.submit."""
        self._writing.require_usable()
        if is_only and self.transact_inline is not None and self._writing.is_idle:
            try:
                outcomes = commit_items(batch, [item], self.transact_inline)
            except WouldWait:
                pass  # the writer's thread waits instead
            else:
                await self._yield_now_and_then()
                return cast("Result", _result(outcomes[0]))
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        with self._gathering:
            group = self._open_group
            if group is None or group.batch is not batch:
                group = self._open_group = _Group(batch)
            group.items.append(item)
            group.waiting.append((loop, future))
            is_first = loop not in group.loops
            group.loops.add(loop)
        if is_first:
            # After everything else that is submitted in this turn of the loop. Every loop does it for itself: the one
            # that opened the group may be blocked by code of a user, and must not hold up the items of the others.
            loop.call_soon(self._submit_group, group)
        return await future

    def seal(self) -> None:
        """Submit the open group, so that items from now on come after the write that follows.

        Raises: RuntimeError in a forked child, which would otherwise write what its parent was asked for.
        """
        self._writing.require_usable()
        with self._gathering:
            group, self._open_group = self._open_group, None
        if group is not None:
            self._submit_group(group)

    async def _yield_now_and_then(self) -> None:
        """Yield to the loop at times: a caller that only appends, and never waits, would keep it busy."""
        self._inline_count += 1
        if self._inline_count % _IN_A_ROW == 0:
            await asyncio.sleep(0)

    def _submit_group(self, group: _Group) -> None:
        """Submit a group to the writer, once."""
        with self._gathering:
            is_submitted, group.is_submitted = group.is_submitted, True
        if not is_submitted:
            self._writing.submit(partial(self._commit_group, group))

    def _commit_group(self, group: _Group) -> Callable[[], None]:
        """Write a group as it is now, on the writer's thread; an item whose waiter was cancelled is left out."""
        with self._gathering:
            if self._open_group is group:
                self._open_group = None
        kept = [n for n, (_, future) in enumerate(group.waiting) if not future.cancelled()]
        waiting = [group.waiting[n] for n in kept]
        outcomes: Outcomes = []
        try:
            if kept:
                outcomes = commit_items(group.batch, [group.items[n] for n in kept], self.transact)
        except BaseException as error:  # noqa: BLE001 (it is raised to the waiters)
            outcomes = _for_each(error, len(kept))
        return partial(_notify, waiting, outcomes)


def commit_items(batch: Batch[Item, Result], items: Sequence[Item], transact: Transact) -> Outcomes:
    """Write items in one transaction; when that fails for a reason that may be one item's own, each in its own.

    Raises: WouldWait
    """
    kind = STATEMENT if batch.is_single_statement(items) else GROUP
    try:
        return transact(partial(batch.apply, items=items), kind)
    except WouldWait:
        raise
    except (Unavailable, Damaged) as error:
        # A disk, a lock or a connection failed: no item is the cause, and what was stored may not even be known.
        return _for_each(error, len(items))
    except Exception:  # noqa: BLE001 (the transactions of their own show which item is the cause)
        return [_commit_one(batch, item, transact) for item in items]


def _commit_one(batch: Batch[Item, Result], item: Item, transact: Transact) -> object:
    try:
        return transact(partial(batch.apply_one, item=item), GROUP)
    except WouldWait:
        raise
    except Exception as error:  # noqa: BLE001 (it is raised to the waiter)
        return error


def _for_each(error: BaseException, count: int) -> Outcomes:
    """Return an error object for each waiter: a traceback is noted in it where it is raised."""
    errors = [copy.copy(error) for _ in range(count)]
    for one in errors:
        one.__cause__ = error
    return list(errors)


def _result(outcome: Any) -> Any:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _notify(waiting: list[tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]"]], outcomes: Outcomes) -> None:
    """Wake each loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Settled]] = {}
    for (loop, future), outcome in zip(waiting, outcomes, strict=True):
        error = outcome if isinstance(outcome, BaseException) else None
        by_loop.setdefault(loop, []).append((future, outcome, error))
    for loop, settled in by_loop.items():
        settle(loop, settled)
