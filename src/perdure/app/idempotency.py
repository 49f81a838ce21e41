"""Idempotency: a call with a key is executed once. A repeated call returns the current state of its subject.

A crash may separate the key from the change, so the order of their commits depends on the kind of change:

- in one transaction (`in_change`): both are committed, or neither;
- key first (`keep_first`): for a change that detects its own earlier execution, such as a file or a goal's event;
- key last (`keep_last`): for a change that may be repeated safely, such as resuming a goal;
- around the change (`settle`): for a change with an id that is chosen first, and a result that a repeat returns.

The same key with another body raises `KeyTaken`. A rejected call has changed nothing, and frees its key.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from perdure.errors import Conflict, Denied, Exhausted, Invalid, NotFound
from perdure.kernel.ports import IdempotencyKeys, IdempotentCall

__all__ = ["Idempotency", "IdempotentCall"]

T = TypeVar("T")
_ANSWER = "\t"
"""Marks an answer; a chosen id has no control characters."""
_REJECTED = (Invalid, NotFound, Conflict, Denied, Exhausted)


class Idempotency:
    """Executes calls once, by the keys in a store. A call of None has no key, and is always executed."""

    def __init__(self, keys: IdempotencyKeys) -> None:
        self._keys = keys

    async def known(self, call: IdempotentCall | None) -> IdempotentCall | None:
        """Return the stored call with the same key, if any.

        Raises: KeyTaken
        """
        if call is None:
            return None
        known = await self._keys.find(call.key)
        if known is not None:
            call.require_same(known)
        return known

    async def in_change(
        self, call: IdempotentCall | None, change: Callable[[], Awaitable[T]], present: Callable[[str], Awaitable[T]]
    ) -> T:
        """Execute a change that commits the key in its transaction; a repeat returns the current state of its subject.

        Raises: KeyTaken; the errors of the change.
        """
        if (known := await self.known(call)) is not None:
            return await present(known.subject)
        try:
            return await change()
        except Conflict:
            if (known := await self.known(call)) is None:
                raise
            return await present(known.subject)  # the same call, made twice at the same time

    async def keep_first(self, call: IdempotentCall | None, subject: str, change: Callable[[], Awaitable[T]]) -> T:
        """Store the key of a call, then execute its change, also in a repeat: a change detects its earlier execution.

        Raises: KeyTaken; the errors of the change.
        """
        if call is None:
            return await change()
        call.require_same(await self._keys.keep(replace(call, subject=subject)))
        try:
            return await change()
        except _REJECTED:
            await self._keys.forget(call)
            raise

    async def keep_last(
        self,
        call: IdempotentCall | None,
        subject: str,
        change: Callable[[], Awaitable[T]],
        present: Callable[[], Awaitable[T]],
    ) -> T:
        """Execute a change unless its key is stored, then store the key: a repeat after a crash executes it.

        Raises: KeyTaken; the errors of the change.
        """
        if await self.known(call) is not None:
            return await present()
        done = await change()
        if call is not None:
            call.require_same(await self._keys.keep(replace(call, subject=subject)))
        return done

    async def settle(
        self, call: IdempotentCall, chosen: str, change: Callable[[str], Awaitable[str]]
    ) -> tuple[str, bool]:
        """Store the id that was chosen for a change, execute it, and store its answer.

        Returns the answer, and whether it was stored before. A repeat without a stored answer executes the change with
        the first chosen id, so the change detects its earlier execution.

        Raises: KeyTaken; the errors of the change.
        """
        kept = await self._keys.keep(replace(call, subject=chosen))
        call.require_same(kept)
        if kept.subject.startswith(_ANSWER):
            return kept.subject.removeprefix(_ANSWER), True
        try:
            answer = await change(kept.subject)
        except Conflict:
            await self._keys.forget(kept)
            raise
        settled = await self._keys.settle(kept, f"{_ANSWER}{answer}")
        call.require_same(settled)
        return settled.subject.removeprefix(_ANSWER), False
