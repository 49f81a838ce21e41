"""Group commit: items that wait for the writer are written in one transaction, so that they share one flush.

A durable commit waits for one flush of the disk, which takes most of its time. With one commit per item, throughput is
limited by the number of flushes per second, however many goals run. So items that are submitted while the writer is
busy join the open group, and the whole group is committed by one flush.

There is no timer, so a single item is not delayed. An open group takes the items that arrive while the previous group
is written, and those that are submitted in the same turn of the event loop. The more load, the larger the groups. If
only one item is expected and the writer is idle, it is committed at once on the thread of the event loop, even before
items of a group that is still open.

Items of a group must not affect each other. An item with a conflict gets its error as its result, while the others are
committed. If the transaction itself fails for a reason that one item may have caused, each item is retried in its own
transaction, so that only that item fails.
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
    Item,
    ItemWriter,
    RawTransaction,
    Result,
    TransactionKind,
    WouldWait,
)

if TYPE_CHECKING:
    from perdure.store.transaction import Transaction

_IN_A_ROW = 10
"""The number of items written on the thread of an event loop before it yields to other tasks."""

Outcomes = list[Any]
"""The result of each item, or the error to raise."""
T = TypeVar("T")


class Transact(Protocol):
    """Runs a function in one transaction. See GroupCommit.transact."""

    def __call__(self, fn: Callable[[Any], T], kind: TransactionKind) -> T: ...


@dataclass(slots=True)
class _Group:
    """Items of one sort that will share a transaction, and their waiters."""

    item_writer: ItemWriter[Any, Any]
    items: list[Any] = field(default_factory=list)
    waiting: list[tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]"]] = field(default_factory=list)
    loops: set[asyncio.AbstractEventLoop] = field(default_factory=set)
    """The event loops of the waiters. Each has a callback that submits the group; the first to run does it."""
    is_submitted: bool = False


class GroupCommit(ABC):
    """The writes of one database; an adapter implements the transaction.

    They run on the thread of the writer in the order in which they were submitted: a write first seals the open group.
    The exception is an item that is written inline, on the thread of an event loop. That needs an idle writer, so the
    item overtakes no queued write, but it may overtake the items of a group that is still open.
    """

    transact_inline: Transact | None = None
    """Like `transact`, on the thread of an event loop; raises WouldWait instead of waiting. None: not supported."""

    def __init__(self, writer_thread: Executor) -> None:
        self._writer_thread = writer_thread
        self._open_group: _Group | None = None
        self._group_lock = threading.Lock()
        self._inline_count = 0

    @abstractmethod
    def transact(self, fn: Callable[[Any], T], kind: TransactionKind) -> T:
        """Run a function in one transaction on the calling thread, and commit it.

        The argument of `fn` is a Transaction if the kind `uses_sqlalchemy`, else a RawTransaction. If it raises, the
        transaction is rolled back.
        """

    async def write(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.write."""
        self.seal()
        return await self._writer_thread.run(self.transact, fn, CORE)

    async def write_raw(self, fn: Callable[[RawTransaction], T], *, flush: bool = True) -> T:
        """See RawDatabase.write_raw."""
        self.seal()
        return await self._writer_thread.run(self.transact, fn, WRITE if flush else UNFLUSHED)

    async def submit(
        self, item_writer: ItemWriter[Item, Result], item: Item, *, expects_no_other: bool = False
    ) -> Result:
        """See RawDatabase.submit."""
        self._writer_thread.require_usable()
        if expects_no_other and self.transact_inline is not None and self._writer_thread.is_idle:
            try:
                outcomes = commit_items(item_writer, [item], self.transact_inline)
            except WouldWait:
                pass  # the writer's thread waits instead
            else:
                await self._yield_sometimes()
                return cast("Result", _result(outcomes[0]))
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        with self._group_lock:
            group = self._open_group
            if group is None or group.item_writer is not item_writer:
                group = self._open_group = _Group(item_writer)
            group.items.append(item)
            group.waiting.append((loop, future))
            is_first = loop not in group.loops
            group.loops.add(loop)
        if is_first:
            # After all other submissions in this turn of the loop. Every loop does this itself: the loop that opened
            # the group may be blocked by user code, and must not delay the items of the others.
            loop.call_soon(self._submit_group, group)
        return await future

    def seal(self) -> None:
        """Submit the open group, so that later items are written after the write that follows.

        Raises: RuntimeError in a forked child, which would otherwise write the items of its parent.
        """
        self._writer_thread.require_usable()
        with self._group_lock:
            group = self._open_group
            self._open_group = None
        if group is not None:
            self._submit_group(group)

    async def _yield_sometimes(self) -> None:
        """Yield to the loop after some items, because a caller that only appends would block other tasks."""
        self._inline_count += 1
        if self._inline_count % _IN_A_ROW == 0:
            await asyncio.sleep(0)

    def _submit_group(self, group: _Group) -> None:
        """Submit a group to the writer, unless another event loop has done so."""
        with self._group_lock:
            if group.is_submitted:
                return
            group.is_submitted = True
        self._writer_thread.submit(partial(self._commit_group, group))

    def _commit_group(self, group: _Group) -> Callable[[], None]:
        """Write a group on the thread of the writer, without items whose waiter was cancelled."""
        with self._group_lock:
            if self._open_group is group:
                self._open_group = None
        kept = [n for n, (_, future) in enumerate(group.waiting) if not future.cancelled()]
        waiting = [group.waiting[n] for n in kept]
        outcomes: Outcomes = []
        try:
            if kept:
                outcomes = commit_items(group.item_writer, [group.items[n] for n in kept], self.transact)
        except BaseException as error:  # noqa: BLE001 (it is raised to the waiters)
            outcomes = _copies_of(error, len(kept))
        return partial(_notify, waiting, outcomes)


def commit_items(item_writer: ItemWriter[Item, Result], items: Sequence[Item], transact: Transact) -> Outcomes:
    """Write items in one transaction; if it fails and one item may be the cause, write each in its own transaction.

    Raises: WouldWait
    """
    kind = STATEMENT if item_writer.is_single_statement(items) else GROUP
    try:
        return transact(partial(item_writer.apply, items=items), kind)
    except WouldWait:
        raise
    except (Unavailable, Damaged) as error:
        # A disk, a lock or a connection failed: no item is the cause, and the outcome may be unknown.
        return _copies_of(error, len(items))
    except Exception:  # noqa: BLE001 (separate transactions show which item is the cause)
        return [_commit_one(item_writer, item, transact) for item in items]


def _commit_one(item_writer: ItemWriter[Item, Result], item: Item, transact: Transact) -> object:
    try:
        return transact(partial(item_writer.apply_one, item=item), GROUP)
    except WouldWait:
        raise
    except Exception as error:  # noqa: BLE001 (it is raised to the waiter)
        return error


def _copies_of(error: BaseException, count: int) -> Outcomes:
    """Return a copy of an error for each waiter, because raising it adds a traceback to it."""
    errors = [copy.copy(error) for _ in range(count)]
    for one in errors:
        one.__cause__ = error
    return list(errors)


def _result(outcome: Any) -> Any:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _notify(waiting: list[tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]"]], outcomes: Outcomes) -> None:
    """Settle the futures of the waiters, with one wake-up of each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Settled]] = {}
    for (loop, future), outcome in zip(waiting, outcomes, strict=True):
        error = outcome if isinstance(outcome, BaseException) else None
        by_loop.setdefault(loop, []).append((future, outcome, error))
    for loop, settled in by_loop.items():
        settle(loop, settled)
