"""The frames that a server sends on `/ws/goals/{goal_id}`; a form has a tag, `type`."""

from typing import Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from perdure.app.wire.resources.events import Event


class EventFrame(TypedDict):
    """An event of the goal."""

    type: Literal["event"]
    event: Event


class CallProgress(TypedDict):
    """What a call that runs in the server reports about itself; it is never stored."""

    call_id: str
    text: str


class ProgressFrame(CallProgress):
    """The progress of a call."""

    type: Literal["progress"]


class ErrorFrame(TypedDict):
    """Why the goal cannot be followed; the socket is closed after it."""

    type: Literal["error"]
    code: str
    message: str
    last_seq: NotRequired[int]


GoalFrame: TypeAlias = EventFrame | ProgressFrame | ErrorFrame
