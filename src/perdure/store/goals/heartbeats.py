"""The heartbeats of other workers, timed by the clock of this process: what proves that a worker is dead.

A lease that is kept on a server has a deadline on the server's wall clock, which may jump. So the deadline is only a
hint. Every renewal also changes the lease's beat, and an observer that has seen no change for as long as the lease
lasts, by its own clock, knows that the owner has stopped: a worker whose renewals fail ends its goals after two thirds
of its lease.
"""

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

from perdure.kernel.ports import Worker


@dataclass(frozen=True, slots=True)
class Lease:
    """What a worker has said about itself: that it lives until a moment, on the clock of the store of the leases."""

    worker: Worker
    deadline_us: int
    ttl_us: int = 0
    beat: int = 0

    @property
    def sign(self) -> tuple[int, int]:
        """What changes with every renewal. A worker of an older version changes only the deadline."""
        return self.beat, self.deadline_us

    @property
    def ttl_s(self) -> float:
        return self.ttl_us / 1_000_000


@dataclass(frozen=True, slots=True)
class Seen:
    """For how long a lease was seen unchanged, and whether it was seen to change before that."""

    silent_s: float
    has_changed: bool


class Heartbeats:
    """The leases that this process has read, and since when each is as it is. Used by several threads."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._known: dict[str, tuple[tuple[int, int], float, bool]] = {}
        self._lock = threading.Lock()

    def see(self, lease: Lease, asked_s: float) -> Seen:
        """Note a lease that was read after `asked_s`, and say for how long it has certainly not changed.

        A new sign counts from after it was read, and an old one up to before it was read again: the time in between is
        never longer than what this says.
        """
        with self._lock:
            known = self._known.get(lease.worker.id)
            if known is None or known[0] != lease.sign:
                known = (lease.sign, self._now_s(), known is not None)
                self._known[lease.worker.id] = known
        _, since_s, has_changed = known
        return Seen(max(asked_s - since_s, 0.0), has_changed)

    def forget_others(self, worker_ids: Collection[str]) -> None:
        """Forget all workers but these."""
        with self._lock:
            self._known = {name: known for name, known in self._known.items() if name in worker_ids}
