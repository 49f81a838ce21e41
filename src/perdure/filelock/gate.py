"""The gate in front of all locks of a process: closed while the process is about to be stopped by its terminal.

A process that is stopped while it holds a lock blocks every other process until it is resumed. So whoever wants to stop
this process closes the gate first, waits until nothing is held, and opens it again after the process was resumed.

Adding to a set and removing from it are atomic, and a lock is added before the gate is looked at. So either the one who
closes the gate sees the lock, or the one who takes the lock sees that the gate is closed. No mutex is involved: a
signal handler may close the gate while the same thread is in the middle of taking a lock.
"""


class Gate:
    """Counts what is held, and keeps threads from taking more locks."""

    def __init__(self) -> None:
        self.closers: set[object] = set()
        """Those who keep the gate closed; while there is none, it is open."""
        self.inner: set[object] = set()
        """Locks under which no other is taken."""
        self.outer: set[object] = set()
        """Locks under which others are taken, perhaps by other threads, such as the writer of a database."""
        self._shutters: set[object] = set()

    def close(self) -> object:
        """Let no lock be taken, except by those who need it to release an outer lock; return a token for `open`."""
        token = object()
        self.closers.add(token)
        return token

    def shut(self, token: object) -> None:
        """Let no lock be taken at all: an outer lock is held for too long to be waited for."""
        self._shutters.add(token)

    def open(self, token: object) -> None:
        """Let locks be taken again, unless another one keeps the gate closed."""
        self._shutters.discard(token)
        self.closers.discard(token)

    def lets_in(self, register: set[object]) -> bool:
        """Tell whether a lock that was added to one of our sets may be taken although the gate is closed."""
        if self._shutters:
            return False
        return len(self.outer) > (1 if register is self.outer else 0)

    def is_quiet(self) -> bool:
        """Tell whether the process may be stopped; once the gate is shut, outer locks do not count."""
        return not self.inner and bool(self._shutters or not self.outer)

    def reset(self) -> None:
        """Start again in a forked child, which holds nothing."""
        for each in (self.closers, self.inner, self.outer, self._shutters):
            each.clear()


gate = Gate()
"""The gate of this process."""
