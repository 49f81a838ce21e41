"""What the API answers with, as types: plain dictionaries with known keys."""

from typing import Any, Literal, NotRequired, TypedDict


class Failure(TypedDict):
    """Why a goal failed; `type`, `args` and `traceback` are of the exception, if there was one."""

    code: str
    message: str
    type: str | None
    args: Any
    traceback: str | None
    retryable: bool | None


class NextCommand(TypedDict):
    """A command line that a person can run next, and what it is for."""

    command: str
    why: str


class Goal(TypedDict):
    """A goal; `error` is null in lists, and `next` is generic there."""

    id: str
    key: str | None
    text: str
    mind: str
    bot: str | None
    status: Literal["running", "interrupted", "waiting", "done", "failed", "cancelled"]
    reason: str | None
    waiting_for: str | None
    due_at: str | None
    next_attempt_at: str | None
    created_at: str
    updated_at: str
    last_seq: int
    steps: int
    cost_usd: float
    tags: list[str]
    parent: dict[str, Any] | None
    forked_from: dict[str, Any] | None
    output: Any
    detail: str | None
    error: Failure | None
    next: list[NextCommand]


class Event(TypedDict):
    """One event of a goal."""

    v: int
    goal_id: str
    seq: int
    id: str
    type: str
    iteration: int
    timestamp: str
    payload: dict[str, Any]
    hash: str


class Turn(TypedDict):
    """What Forge says; which other keys there are, the action tells."""

    action: Literal["ask_question", "show_preview", "ready_to_assemble", "clarify"]
    phase: NotRequired[str]
    question: NotRequired[str]
    options: NotRequired[list[dict[str, Any]]]
    allow_free_text: NotRequired[bool]
    multiple: NotRequired[bool]
    help: NotRequired[str]
    preview: NotRequired[dict[str, Any]]
    config: NotRequired[dict[str, Any]]
    message: NotRequired[str]


class Session(TypedDict):
    """A session of the builder; a new one has fewer keys than one that is looked at."""

    session_id: str
    mode: str
    turn: Turn
    phase: NotRequired[str]
    initial_description: NotRequired[str]
    question_count: NotRequired[int]
    revision: NotRequired[int]
    preview: NotRequired[dict[str, Any]]
    conversation: NotRequired[list[dict[str, Any]]]


class Added(TypedDict):
    """What became of a record that was to be remembered."""

    added: bool
    id: NotRequired[str]
    key: NotRequired[str]
    superseded: NotRequired[list[str]]
    reason: NotRequired[str]
    existing_id: NotRequired[str]


class RecordFilters(TypedDict, total=False):
    """What a list or a search of records is narrowed down to; times are ISO-8601 or seconds since 1970."""

    type: str | None
    source: str | None
    repo: str | None
    since: str | None
    until: str | None


class Matches(TypedDict):
    """What was found in the memory: each match has its record, and a score or the reasons."""

    matches: list[dict[str, Any]]
    truncated: bool
    disabled: NotRequired[bool]
    next_cursor: NotRequired[str]


class Answered(TypedDict):
    """The next turn of a session, and how far it has come."""

    turn: Turn
    state_summary: dict[str, Any]


class BotSummary(TypedDict):
    """A bot in a list."""

    id: str
    slug: str
    name: str
    category: str
    version: int
    state: str
    created_at: str
    updated_at: str


class BotFile(TypedDict):
    """One file of a bot."""

    name: str
    text: str
    sha256: str
