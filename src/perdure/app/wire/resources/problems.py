"""A failure (RFC 9457): the answer of REST, and what a command prints with `--json`."""

from typing import NotRequired

from typing_extensions import TypedDict

from perdure.app.wire.resources.builder import Session
from perdure.app.wire.resources.memory import MemoryRecord
from perdure.app.wire.resources.vocabulary import Moment


class Meta(TypedDict):
    """Describes the request that a response answers, or the command that failed."""

    request_id: str
    timestamp: Moment
    response_time_ms: float


class ProblemError(TypedDict):
    """One of several things that are wrong."""

    detail: str


class Problem(TypedDict):
    """A failed request or command (RFC 9457). `code` is the stable name of the kind of failure.

    `current` is the present state of the resource, where a conflict can be resolved from it: a session, or a record.
    `last_seq` is the seq of the goal's last event, where `after_seq` is beyond it.
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
