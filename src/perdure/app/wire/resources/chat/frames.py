"""The frames of an answer that arrives, and the replies to what a client says, on `/ws/goals/{goal_id}`."""

from typing import Literal

from typing_extensions import TypedDict


class AnswerText(TypedDict):
    """The text so far of one part of an answer."""

    turn: int
    part: int
    kind: Literal["text", "thinking", "arguments"]
    text: str


class AnswerPiece(AnswerText):
    """A piece of one part of an answer; `offset` is how many code points of the part came before."""

    offset: int


class PartialFrame(AnswerText):
    """The text so far of a part of the answer that arrives; it replaces all that came of that part before."""

    type: Literal["partial"]


class DeltaFrame(AnswerPiece):
    """A piece of the answer that arrives. The event of its turn replaces it."""

    type: Literal["delta"]


class DeltaResetFrame(TypedDict):
    """The answer begins again: the pieces of its turn so far do not count."""

    type: Literal["delta_reset"]
    turn: int


class AckFrame(TypedDict):
    """What a client has sent is durable; `seq` is its event, null while it waits."""

    type: Literal["ack"]
    reply_to: str
    seq: int | None


class PongFrame(TypedDict):
    """The reply to `ping`."""

    type: Literal["pong"]
