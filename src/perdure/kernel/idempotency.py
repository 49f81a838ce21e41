"""Calls that a client may repeat under a key, because their answer was lost on its way: the value and its port."""

from dataclasses import dataclass
from typing import Protocol

from perdure.errors import KeyTaken


@dataclass(frozen=True, slots=True)
class IdempotentCall:
    """One call of a client, named by a key of its own choice."""

    key: str
    route: str
    """What was called."""
    body_sha256: bytes
    """What it was called with."""
    subject: str = ""
    """What it changed, or its answer."""

    def require_same(self, known: "IdempotentCall") -> None:
        """Check that the key was not used for another call.

        Raises: KeyTaken
        """
        if (self.route, self.body_sha256) != (known.route, known.body_sha256):
            raise KeyTaken(f"The key {self.key!r} was used for another call, of {known.route}. Use a new one.")


class IdempotencyKeys(Protocol):
    """The calls that were made under a key, for a day.

    A store that holds what a call changes commits the call in the same transaction, so that both are there or neither.
    """

    async def find(self, key: str) -> IdempotentCall | None:
        """Return the call that was made under a key."""
        ...

    async def keep(self, call: IdempotentCall) -> IdempotentCall:
        """Store a call whose change is not in the database, durably; return the one that was first under its key."""
        ...

    async def settle(self, call: IdempotentCall, subject: str) -> IdempotentCall:
        """Give a call that was kept with `call.subject` its final one; return the call as it is stored then.

        The first of several callers settles it. A call that was forgotten meanwhile is returned settled, and not kept.
        """
        ...

    async def forget(self, call: IdempotentCall) -> None:
        """Free the key of a call that was rejected, and has changed nothing; the key of another call stays."""
        ...
