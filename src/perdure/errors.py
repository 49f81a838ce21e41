"""Every error that Perdure raises on purpose, in one tree.

    PerdureError          code         HTTP  exit
    ├── Invalid           invalid       422     2   the request is not valid
    ├── NotFound          not_found     404     3   the object does not exist
    │   └── Over          over          410     3   the object existed, and has ended or was removed
    ├── Conflict          conflict      409     4   the object was changed meanwhile, or is in use
    │   └── KeyTaken      key_taken     422     4   the key was used for another call
    ├── Denied            denied        403     1   not allowed
    │   └── NoToken       no_token      401     1   the token of a request is missing or invalid
    ├── Waiting           waiting       409     5   a person must decide first
    │   └── GoalWaiting   waiting       409     5   a goal waits; exit code 6 when for a limit, 8 when for a model
    ├── Exhausted         exhausted     429     6   a limit or budget is used up
    ├── Damaged           damaged       500     7   stored data is not what was written
    ├── Unavailable       unavailable   503     8   an external system does not respond
    ├── InternalError     internal      500     1   a bug of Perdure
    ├── StepFailed        its own       500     1   a step of a flow failed permanently
    └── GoalFailed        goal_failed   500     1   a goal has failed
        └── GoalCancelled goal_cancelled 500  130   a goal was cancelled

A message says what was expected, what was found and what to do next. It never contains a secret.
"""

import errno
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Protocol


class PerdureError(Exception):
    """The base class of all errors that Perdure raises on purpose; `str(error)` can be shown to a user."""

    code: str = "error"
    title: ClassVar[str] = "Failed"
    http_status: ClassVar[int] = 500
    exit_code: int = 1

    def __init__(self, detail: str, *, errors: Sequence[str] = (), current: Mapping[str, Any] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self.current = current
        """The current state in its JSON form, for the next decision of the caller."""

    def problem(self) -> dict[str, Any]:
        """Describe the error as an RFC 9457 problem; an interface adds `instance` and `meta`."""
        known = {} if self.current is None else {"current": dict(self.current)}
        return known | {
            "type": f"urn:perdure:error:{self.code}",
            "title": self.title,
            "status": self.http_status,
            "detail": self.detail,
            "code": self.code,
            "errors": [{"detail": error} for error in self.errors],
        }


class Invalid(PerdureError):
    """The request is not valid; nothing was changed."""

    code = "invalid"
    title = "Invalid"
    http_status = 422
    exit_code = 2


class NotFound(PerdureError):
    """The object does not exist."""

    code = "not_found"
    title = "Not found"
    http_status = 404
    exit_code = 3


class Over(NotFound):
    """The object existed and has ended or was removed: a session that has made its bot, a deleted record."""

    code = "over"
    title = "Over"
    http_status = 410


class InternalError(PerdureError):
    """A bug of Perdure, not of its caller; the log, or `--debug`, shows the traceback."""

    code = "internal"
    title = "Internal error"


class StepFailed(PerdureError):
    """A step of a flow failed after its last attempt; `code` and `detail` are the same at every replay."""

    title = "Step failed"
    http_status = 500
    exit_code = 1

    def __init__(self, code: str, message: str, *, step: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.step = step
        """The name of the step in the history, such as `/pay#0`."""
        self.error: Any = None
        """The recorded error: `code`, `message`, and `type`, `args` and `traceback` of the step's exception."""


class Conflict(PerdureError):
    """The subject was changed meanwhile, is in use, or is not in the required state."""

    code = "conflict"
    title = "Conflict"
    http_status = 409
    exit_code = 4


class KeyTaken(Conflict):
    """The key was used for another call."""

    code = "key_taken"
    title = "Key taken"
    http_status = 422


class Denied(PerdureError):
    """The operating system, a policy or a missing token denies the operation."""

    code = "denied"
    title = "Denied"
    http_status = 403
    exit_code = 1


class NoToken(Denied):
    """The token of a request is missing or invalid."""

    code = "no_token"
    title = "No token"
    http_status = 401


class Waiting(PerdureError):
    """A person must decide before the goal can continue."""

    code = "waiting"
    title = "Waiting"
    http_status = 409
    exit_code = 5


class SuggestedCommand(Protocol):
    """A command for a goal in its current state, and the reason to run it."""

    @property
    def command(self) -> str: ...
    @property
    def why(self) -> str: ...


class OpenQuestion(Protocol):
    """A question to a person that has no answer yet."""

    @property
    def call_id(self) -> str: ...
    @property
    def question(self) -> str: ...
    @property
    def options(self) -> Sequence[str] | None: ...


class GoalWaiting(Waiting):
    """A goal cannot continue by itself: it waits for a person, a model, a signal, a timer, a limit or a release."""

    title = "Goal waiting"

    def __init__(  # noqa: PLR0913 (each is something that a goal can wait for)
        self,
        id: str,  # noqa: A002 (as everywhere)
        waiting_for: str,
        questions: Sequence[OpenQuestion] = (),
        signals: Sequence[str] = (),
        due_at: datetime | None = None,
        next: Sequence[SuggestedCommand] = (),  # noqa: A002 (as on the wire)
        *,
        unknown: Sequence[str] = (),
        deadlines: Mapping[str, str] | None = None,
        children: Sequence[str] = (),
        failure: str | None = None,
    ) -> None:
        waits = _waited_for(
            waiting_for, _questions_text(questions, deadlines or {}), signals, due_at, unknown, deadlines or {}
        )
        if waiting_for == "child":
            waits = "; ".join(["a child", *children])
        elif waiting_for == "model" and failure:
            waits = f"a model: {failure.removesuffix('.')}"
        super().__init__(f"{id} waits for {waits}.")
        self.id = id
        self.waiting_for = waiting_for
        self.questions = tuple(questions)
        self.signals = tuple(signals)
        """The names of the signals."""
        self.due_at = due_at
        """The time at which the goal continues by itself, if any."""
        self.next = tuple(next)
        self.unknown = tuple(unknown)
        """The steps whose outcome is unknown: each waits for a decision."""
        if waiting_for == "limit":
            self.exit_code = Exhausted.exit_code
        elif waiting_for == "model":
            self.exit_code = Unavailable.exit_code

    def __str__(self) -> str:
        return "\n".join([self.detail, *_suggested(self.next)])


class GoalFailed(PerdureError):
    """A goal has failed; `detail` is the cause. `str(error)` adds the traceback of the flow and the next command."""

    code = "goal_failed"
    title = "Goal failed"
    http_status = 500
    exit_code = 1

    def __init__(
        self,
        id: str,  # noqa: A002 (as everywhere)
        reason: str,
        detail: str | None = None,
        traceback: str | None = None,
        next: Sequence[SuggestedCommand] = (),  # noqa: A002 (as on the wire)
        *,
        recorded_at: datetime | None = None,
    ) -> None:
        super().__init__(detail or _ended_by(reason))
        self.id = id
        self.reason = reason
        self.traceback = traceback
        """The frames of the flow and its steps, if the goal failed because of an exception."""
        self.next = tuple(next)
        self.recorded_at = recorded_at
        """The time at which the goal ended, if it ended before this call; else None."""

    def __str__(self) -> str:
        reason = "" if self.reason == "failed" else f" ({self.reason})"
        traceback = [self.traceback.rstrip()] if self.traceback else []
        sentence = f"{self.id} failed{reason}{self._recorded}: {self.detail}"
        return "\n".join([sentence, *traceback, *_suggested(self.next)])

    @property
    def _recorded(self) -> str:
        if self.recorded_at is None:
            return ""
        return f" at {self.recorded_at:%Y-%m-%d %H:%M:%S} UTC (recorded; nothing was run now)"


class GoalCancelled(GoalFailed):
    """A goal was cancelled."""

    code = "goal_cancelled"
    title = "Goal cancelled"
    exit_code = 130

    def __str__(self) -> str:
        why = "." if self.detail == _ended_by(self.reason) else f": {self.detail}"
        return "\n".join([f"{self.id} was cancelled{self._recorded}{why}", *_suggested(self.next)])


def _ended_by(reason: str) -> str:
    return f"It ended with the reason {reason}."


def _suggested(commands: Sequence[SuggestedCommand]) -> list[str]:
    """Return lines with each reason and its command, indented."""
    return [line for each in commands for line in (each.why, f"  {each.command}")]


def _waited_for(
    waiting_for: str,
    questions_text: str,
    signals: Sequence[str],
    due_at: datetime | None,
    unknown: Sequence[str],
    deadlines: Mapping[str, str],
) -> str:
    if waiting_for == "person" and unknown:
        decision = f"a decision about {', '.join(unknown)}, whose outcome is unknown"
        return f"{decision}; and for an answer: {questions_text}" if questions_text else decision
    details = {
        "person": questions_text,
        "signal": ", ".join(f"{name}{_until(name, deadlines)}" for name in signals),
        "timer": "" if due_at is None else f"due at {due_at.isoformat(timespec='seconds')}",
    }.get(waiting_for)
    others = {"limit": "a limit to be raised", "hold": "its release after a crash loop", "message": "the next message"}
    what = others.get(waiting_for, f"a {waiting_for}")
    return f"{what}: {details}" if details else what


def _questions_text(questions: Sequence[OpenQuestion], deadlines: Mapping[str, str]) -> str:
    return ", ".join(
        f"{each.question!r}{_options_text(each.options)}{_until(each.call_id, deadlines)}" for each in questions
    )


def _until(name: str, deadlines: Mapping[str, str]) -> str:
    return f", until {deadlines[name]}" if name in deadlines else ""


def _options_text(options: Sequence[str] | None) -> str:
    return f" ({', '.join(options)})" if options else ""


class Exhausted(PerdureError):
    """A limit or a budget is used up; a user can raise it."""

    code = "exhausted"
    title = "Exhausted"
    http_status = 429
    exit_code = 6


class Damaged(PerdureError):
    """Stored data is not what was written; it was not changed."""

    code = "damaged"
    title = "Damaged"
    http_status = 500
    exit_code = 7


class Unavailable(PerdureError):
    """An external system does not respond now; the same call may succeed later."""

    code = "unavailable"
    title = "Unavailable"
    http_status = 503
    exit_code = 8


_EXHAUSTED_SYSTEM = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG),  # no room
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS),  # no descriptors, no memory
        *(errno.EIO, errno.ETIMEDOUT, errno.ESTALE, errno.EBUSY, errno.EINTR),  # the device or the server behind it
    }
)


_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


def has_no_descriptors(error: OSError) -> bool:
    """Return whether the process, or the system, has reached its limit of open files."""
    return error.errno in _NO_DESCRIPTORS


def from_os_error(what: str, error: OSError) -> Denied | Unavailable:
    """Return the error for a failed system call; `what` names the failed operation.

    If a resource is used up or does not respond, the same call may succeed later: Unavailable. Otherwise a person must
    change something first, usually permissions: Denied.
    """
    why = os.strerror(error.errno) if error.errno else str(error)
    if has_no_descriptors(error):
        return Unavailable(f"{what}: {why}. Raise the limit of open files (`ulimit -n`) and try again.")
    if error.errno in _EXHAUSTED_SYSTEM:
        return Unavailable(f"{what}: {why}. Solve this and try again.")
    return Denied(f"{what}: {why}.")
