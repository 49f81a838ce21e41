"""A call with a key is done once, however often it is repeated; a repeat is answered with what there is now.

Where the key is committed decides what a crash leaves, so there is one way for each place of a change:

- in the transaction of the change (`in_change`): both are there, or neither;
- before it (`kept_first`): for a change that finds itself when it is repeated, such as a file or a goal's event;
- after it (`kept_last`): for one that does no harm when it is done again, such as resuming a goal;
- around it (`settled`): for one that is given a name first, and has an answer to repeat.

The same key with another body is `KeyTaken`. A rejected call has changed nothing, and leaves its key free.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from perdure.errors import Conflict, Denied, Exhausted, Invalid, NotFound
from perdure.kernel.ports import IdempotencyKeys, IdempotentCall

T = TypeVar("T")
_ANSWER = "\t"
"""Marks an answer; what is chosen for a change has no control characters."""
_REJECTED = (Invalid, NotFound, Conflict, Denied, Exhausted)


class Idempotency:
    """Does calls once, by the keys that a store holds. A call of None has no key, and is simply done."""

    def __init__(self, keys: IdempotencyKeys) -> None:
        self._keys = keys

    async def known(self, call: IdempotentCall | None) -> IdempotentCall | None:
        """Return the same call, if it was made before.

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
        """Do a change that stores the call in its own transaction; a repeat gets the present state of its subject.

        Raises: KeyTaken; what the change raises.
        """
        if (known := await self.known(call)) is not None:
            return await present(known.subject)
        try:
            return await change()
        except Conflict:
            if (known := await self.known(call)) is None:
                raise
            return await present(known.subject)  # the same call, made twice at the same moment

    async def kept_first(self, call: IdempotentCall | None, subject: str, change: Callable[[], Awaitable[T]]) -> T:
        """Keep the key of a call, then do its change, also when it was kept before: a change finds what it has done.

        Raises: KeyTaken; what the change raises.
        """
        if call is None:
            return await change()
        call.require_same(await self._keys.keep(replace(call, subject=subject)))
        try:
            return await change()
        except _REJECTED:
            await self._keys.forget(call)
            raise

    async def kept_last(
        self,
        call: IdempotentCall | None,
        subject: str,
        change: Callable[[], Awaitable[T]],
        present: Callable[[], Awaitable[T]],
    ) -> T:
        """Do a change unless it was done, then keep the key: a caller that dies in between does it again.

        Raises: KeyTaken; what the change raises.
        """
        if await self.known(call) is not None:
            return await present()
        done = await change()
        if call is not None:
            call.require_same(await self._keys.keep(replace(call, subject=subject)))
        return done

    async def settled(
        self, call: IdempotentCall, chosen: str, change: Callable[[str], Awaitable[str]]
    ) -> tuple[str, bool]:
        """Keep what was chosen for a change, do it, and keep its answer; return that, and whether it was kept before.

        A repeat that finds no answer does the change with what was chosen first, and the change finds itself.

        Raises: KeyTaken; what the change raises.
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
