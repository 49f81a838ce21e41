"""The types of goals that surfaces read and show: events, states, calls, runs and rows of lists.

They are re-exported from the kernel, flows and tools, with the functions that read them. Changes are use cases in the
other modules of this folder.
"""

from perdure.kernel.calls.children import child_of
from perdure.kernel.calls.holding import describe_hold
from perdure.kernel.conversation.answer_feed import AnswerDelta, AnswerReset
from perdure.kernel.conversation.conversation import is_answer, text_of
from perdure.kernel.events import (
    Ask,
    Body,
    Decision,
    DecisionKind,
    Event,
    ForkedFrom,
    GoalBegun,
    Hold,
    LimitRaised,
    LimitReached,
    Message,
    ModelFailure,
    ModelTurn,
    OutcomeUnknown,
    ParentCall,
    Released,
    Reopened,
    Signal,
    ToolCall,
    ToolError,
    ToolOutput,
    TranscriptSummary,
    Wait,
    decode,
)
from perdure.kernel.fold import GoalState, apply, fold
from perdure.kernel.history.call_state import Call, CallState
from perdure.kernel.history.compare import Parted
from perdure.kernel.history.step_names import named_step
from perdure.kernel.loop import Loop, RunResult
from perdure.kernel.ports import InboxRow
from perdure.kernel.summary import Summary
from perdure.minds.flow.scripts import is_of_script, run_again
from perdure.minds.model.providers.choice import NoModel
from perdure.tools.exec.capture import left_out_bytes

__all__ = [
    "AnswerDelta",
    "AnswerReset",
    "Ask",
    "Body",
    "Call",
    "CallState",
    "Decision",
    "DecisionKind",
    "Event",
    "ForkedFrom",
    "GoalBegun",
    "GoalState",
    "Hold",
    "InboxRow",
    "LimitRaised",
    "LimitReached",
    "Loop",
    "Message",
    "ModelFailure",
    "ModelTurn",
    "NoModel",
    "OutcomeUnknown",
    "ParentCall",
    "Parted",
    "Released",
    "Reopened",
    "RunResult",
    "Signal",
    "Summary",
    "ToolCall",
    "ToolError",
    "ToolOutput",
    "TranscriptSummary",
    "Wait",
    "apply",
    "child_of",
    "decode",
    "describe_hold",
    "fold",
    "is_answer",
    "is_of_script",
    "left_out_bytes",
    "named_step",
    "run_again",
    "text_of",
]
