"""Conversations in lists: each with its title and its last text, the last used first. No history is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.app.wire.goal_view import GoalView
from perdure.errors import Invalid
from perdure.kernel.ports import Overview
from perdure.text.moments import iso

if TYPE_CHECKING:
    from perdure.app.wire.resources.chat.conversations import Conversation

_LONGEST_MOMENT = 18
"""Maximum number of digits of a moment in microseconds, so that every database can compare it."""


@dataclass(frozen=True)
class ConversationPlace:
    """The position in a list at which a page ended: when the last conversation was used, and its goal."""

    last_us: int
    goal_id: str

    def __str__(self) -> str:
        return f"{self.last_us} {self.goal_id}"

    @classmethod
    def read(cls, text: str) -> "ConversationPlace":
        """Parse the result of `str`.

        Raises: Invalid
        """
        last_us, _, goal_id = text.partition(" ")
        if not (goal_id and last_us.isascii() and last_us.isdigit() and len(last_us) <= _LONGEST_MOMENT):
            raise Invalid("Unknown cursor: it is not from a list of conversations. Omit it to start at the beginning.")
        return cls(int(last_us), goal_id)


@dataclass(frozen=True)
class ListedConversation:
    """A conversation in a list."""

    goal: GoalView
    overview: Overview

    @property
    def place(self) -> ConversationPlace:
        """Return its position in the list."""
        return ConversationPlace(self.overview.last_us, self.goal.id)

    def wire(self) -> "Conversation":
        """Return the one JSON form."""
        said = self.overview
        return {
            "goal": self.goal.wire(),
            "title": said.title,
            "messages": said.messages,
            "last_text": said.last_text,
            "last_at": iso(said.last_us),
        }


def listed(goals: Sequence[GoalView]) -> Sequence[ListedConversation]:
    """Return conversations as rows of a list."""
    return [ListedConversation(goal, goal.summary.overview) for goal in goals if goal.summary.overview is not None]
