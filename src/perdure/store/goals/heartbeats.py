"""The heartbeats of other workers, measured by the clock of this process, as proof that a worker is dead.

The deadline of a lease on a database server uses the wall clock of the server, and that clock may jump. If it jumped
forward, every lease would look expired, and goals would be taken from live workers. So the deadline is only a hint.

The proof uses a clock that never jumps: the monotonic clock of the observer. Every renewal increments the beat of the
lease. A live worker renews several times per lease, and a worker whose renewals fail ends its goals after two thirds of
its lease. So if an observer has seen the same beat for the whole length of the lease, by its own clock, the owner has
stopped. The price is time: an observer that sees a lease for the first time must wait for its full length.
"""

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

from perdure.kernel.ports import Worker


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of a worker: it is alive until a deadline, by the clock of the store."""

    worker: Worker
    deadline_us: int
    ttl_us: int = 0
    beat: int = 0

    @property
    def sign(self) -> tuple[int, int]:
        """The part that changes with every renewal. A worker of an older version changes only the deadline."""
        return self.beat, self.deadline_us

    @property
    def ttl_s(self) -> float:
        return self.ttl_us / 1_000_000


@dataclass(frozen=True, slots=True)
class Seen:
    """How long a lease was seen unchanged, and whether it was seen to change before that."""

    silent_s: float
    has_changed: bool


class Heartbeats:
    """The leases that this process has read, and since when each is unchanged. Thread-safe."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._known: dict[str, tuple[tuple[int, int], float, bool]] = {}
        self._lock = threading.Lock()

    def see(self, lease: Lease, asked_s: float) -> Seen:
        """Record a lease that was read after `asked_s`, and return for how long it has certainly not changed.

        The time starts after the first read of a sign and ends before the last one, so it is never too long.
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
