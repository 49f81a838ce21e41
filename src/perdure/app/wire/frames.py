"""The frames of a goal: its events, the progress of its calls, and answers while they arrive."""

from typing import Any

from perdure.app.change_feed.answers import PartialAnswer
from perdure.app.change_feed.progress import ProgressReport, Update
from perdure.kernel.conversation.answer_feed import AnswerReset
from perdure.kernel.events import Event


def frame_of(update: Update) -> dict[str, Any]:
    """Return what is sent of an update."""
    match update:
        case Event():
            return {"type": "event", "event": update.wire()}
        case ProgressReport():
            return {"type": "progress", "call_id": update.call_id, "text": update.text}
        case AnswerReset():
            return {"type": "delta_reset", "turn": update.turn}
        case PartialAnswer():
            return {
                "type": "partial",
                "turn": update.turn,
                "part": update.part,
                "kind": update.kind,
                "text": update.text,
            }
        case _:
            return {
                "type": "delta",
                "turn": update.turn,
                "part": update.part,
                "kind": update.kind,
                "text": update.text,
                "offset": update.offset,
            }
