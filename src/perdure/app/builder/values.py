"""The values of Forge that surfaces read and show: turns, answers and configs of interviews, and assembled bots.

The values and their functions are re-exported from Forge and bots. The words of lists are in `vocabulary`.
"""

from perdure.bots.provenance import Source
from perdure.forge.answers import (
    Back,
    Confirm,
    FreeText,
    OptionIndex,
    OptionIndexes,
    is_help,
    is_undecided,
    read_answer,
)
from perdure.forge.assembly.assembly import AssemblyResult
from perdure.forge.assembly.changes import Changes
from perdure.forge.assembly.library import Explanation
from perdure.forge.config import BuilderConfig
from perdure.forge.interview.finish import shown_model
from perdure.forge.interview.interview import explain_turn
from perdure.forge.ports import DraftPlace
from perdure.forge.questions.change_request import requested_fields
from perdure.forge.questions.changing import NOTHING
from perdure.forge.state import Exchange, without_hint
from perdure.forge.turns import AskQuestion, BuilderTurn, Clarify, Preview, ReadyToAssemble, ShowPreview

__all__ = [
    "NOTHING",
    "AskQuestion",
    "AssemblyResult",
    "Back",
    "BuilderConfig",
    "BuilderTurn",
    "Changes",
    "Clarify",
    "Confirm",
    "DraftPlace",
    "Exchange",
    "Explanation",
    "FreeText",
    "OptionIndex",
    "OptionIndexes",
    "Preview",
    "ReadyToAssemble",
    "ShowPreview",
    "Source",
    "explain_turn",
    "is_help",
    "is_undecided",
    "read_answer",
    "requested_fields",
    "shown_model",
    "without_hint",
]
