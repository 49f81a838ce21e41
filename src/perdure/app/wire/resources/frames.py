"""The frames that a server sends on `/ws/goals/{goal_id}`; `type` is the discriminator."""

from typing import Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from perdure.app.wire.resources.chat.frames import AckFrame, DeltaFrame, DeltaResetFrame, PartialFrame, PongFrame
from perdure.app.wire.resources.events import Event


class EventFrame(TypedDict):
    """An event of the goal."""

    type: Literal["event"]
    event: Event


class CallProgress(TypedDict):
    """A progress report of a call that runs in the server; it is not stored."""

    call_id: str
    text: str


class ProgressFrame(CallProgress):
    """The progress of a call."""

    type: Literal["progress"]


class ErrorFrame(TypedDict):
    """Why a frame was rejected, whose id `reply_to` is; without it, why the goal cannot be followed: then it closes."""

    type: Literal["error"]
    code: str
    message: str
    last_seq: NotRequired[int]
    reply_to: NotRequired[str]


GoalFrame: TypeAlias = (
    EventFrame | ProgressFrame | PartialFrame | DeltaFrame | DeltaResetFrame | AckFrame | PongFrame | ErrorFrame
)
