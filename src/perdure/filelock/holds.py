"""The locks that this process holds, and a pause in which it takes no more, before it stops itself.

A process that is stopped while it holds a lock blocks every other process until it is resumed. So before a process
stops itself, it pauses its locks, waits until none is held, and ends the pause after it was resumed.

Adding to a set and removing from it are atomic, and a lock is added before the pause is checked. So either the thread
that pauses sees the lock, or the thread that takes the lock sees the pause. No mutex is involved: a signal handler may
pause while the same thread is in the middle of taking a lock.
"""


class Holds:
    """The locks that this process holds, and the pauses during which it takes no more."""

    def __init__(self) -> None:
        self.pauses: set[object] = set()
        """A token for each pause; without any, locks may be taken."""
        self.inner: set[object] = set()
        """Locks under which no other is taken."""
        self.outer: set[object] = set()
        """Locks under which others are taken, perhaps by other threads, such as the writer of a database."""
        self._full_pauses: set[object] = set()

    def pause(self) -> object:
        """Forbid taking locks, except those needed to release an outer lock; return a token for `resume`."""
        token = object()
        self.pauses.add(token)
        return token

    def pause_fully(self, token: object) -> None:
        """Forbid taking any lock, because an outer lock is held for too long."""
        self._full_pauses.add(token)

    def resume(self, token: object) -> None:
        """End a pause; locks may be taken again after the last one."""
        self._full_pauses.discard(token)
        self.pauses.discard(token)

    def may_take(self, register: set[object]) -> bool:
        """Return whether a lock that was added to a set may be taken despite a pause."""
        if self._full_pauses:
            return False
        return len(self.outer) > (1 if register is self.outer else 0)

    def is_quiet(self) -> bool:
        """Return whether the process may be stopped; in a full pause, outer locks do not count."""
        return not self.inner and bool(self._full_pauses or not self.outer)

    def reset(self) -> None:
        """Reset the state in a forked child, which holds no locks."""
        for each in (self.pauses, self.inner, self.outer, self._full_pauses):
            each.clear()


holds = Holds()
"""The locks of this process."""
