"""Problems (RFC 9457): error responses of REST, and errors of commands with `--json`."""

from typing import NotRequired

from typing_extensions import TypedDict

from perdure.app.wire.resources.builder import Session
from perdure.app.wire.resources.memory import MemoryRecord
from perdure.app.wire.resources.vocabulary import Moment


class Meta(TypedDict):
    """Metadata of a request, or of a failed command."""

    request_id: str
    timestamp: Moment
    response_time_ms: float


class ProblemError(TypedDict):
    """One of several errors."""

    detail: str


class Problem(TypedDict):
    """A failed request or command (RFC 9457). `code` is the stable name of the kind of failure.

    For a conflict, `current` is the present state of the resource, from which the caller can retry: a session or a
    record. `last_seq` is the seq of the goal's last event, if `after_seq` is greater.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    errors: list[ProblemError]
    meta: Meta
    current: NotRequired[Session | MemoryRecord]
    last_seq: NotRequired[int]
    _links: NotRequired[dict[str, str]]
