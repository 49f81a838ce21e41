"""The progress of the calls of one goal that a follower has not taken yet; it is never stored."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perdure.kernel.events import Event

MAX_BYTES = 1 << 18
"""How much progress is kept for a follower that does not take it; then the oldest is dropped."""


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """What a call has reported about itself last, as text."""

    call_id: str
    text: str
    after_seq: int
    """The newest event of the goal that was known when it was reported."""


Update = Event | ProgressReport
"""What a follower of a goal gets."""


class PendingProgress:
    """The newest report of each call, oldest first.

    A follower that is slower than the reports gets only the newest of each call, and so never has more than
    `MAX_BYTES` waiting for it.
    """

    def __init__(self) -> None:
        self._newest: dict[str, ProgressReport] = {}
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._newest)

    def put(self, report: ProgressReport) -> None:
        """Keep a report, instead of the one before it of the same call."""
        self._drop(report.call_id)
        self._newest[report.call_id] = report
        self._size += len(report.text)
        while self._size > MAX_BYTES:
            self._drop(next(iter(self._newest)))

    def take(self) -> Sequence[ProgressReport]:
        """Return all reports, and forget them."""
        taken = list(self._newest.values())
        self._newest.clear()
        self._size = 0
        return taken

    def among(self, page: Sequence[Event]) -> Sequence[Update]:
        """Return events with the reports that were made before each of them, which are forgotten.

        So a report is never seen before the start of its call, nor after its outcome.
        """
        return list(self._among(page)) if self._newest else page

    def _among(self, page: Sequence[Event]) -> Iterator[Update]:
        waiting = list(self._newest.values())
        for event in page:
            while waiting and waiting[0].after_seq < event.seq:
                report = waiting.pop(0)
                self._drop(report.call_id)
                yield report
            yield event

    def _drop(self, call_id: str) -> None:
        report = self._newest.pop(call_id, None)
        if report is not None:
            self._size -= len(report.text)
