"""Pending progress reports of the calls of one goal for one follower; they are never stored."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perdure.app.change_feed.answers import AnswerUpdate
from perdure.kernel.events import Event

MAX_BYTES = 1 << 18
"""The maximum size of pending reports; when it is exceeded, the oldest report is dropped."""


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """The newest progress report of a call."""

    call_id: str
    text: str
    after_seq: int
    """The seq of the newest known event of the goal at the time of the report."""


Update = Event | ProgressReport | AnswerUpdate
"""An item for a follower of a goal."""


class PendingProgress:
    """The newest report of each call, oldest first.

    A slow follower gets only the newest report of each call, so at most `MAX_BYTES` are pending.
    """

    def __init__(self) -> None:
        self._newest: dict[str, ProgressReport] = {}
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._newest)

    def put(self, report: ProgressReport) -> None:
        """Store a report, replacing the earlier one of the same call."""
        self._drop(report.call_id)
        self._newest[report.call_id] = report
        self._size += len(report.text)
        while self._size > MAX_BYTES:
            self._drop(next(iter(self._newest)))

    def take(self) -> Sequence[ProgressReport]:
        """Return and remove all reports."""
        taken = list(self._newest.values())
        self._newest.clear()
        self._size = 0
        return taken

    def among(self, page: Sequence[Event]) -> Sequence[Event | ProgressReport]:
        """Return events with the reports that were made before each of them, which are forgotten.

        So a report is never yielded before the start of its call or after its outcome.
        """
        return list(self._among(page)) if self._newest else page

    def _among(self, page: Sequence[Event]) -> Iterator[Event | ProgressReport]:
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
