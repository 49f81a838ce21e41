"""Lists of drafts and bots, as every surface shows them. Separate from Forge, which takes longer to import."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.forge.ports import BotSummary, BuilderDraftSummary, BuilderMemoryEntry
from perdure.store.builder import lists
from perdure.store.client import DatabaseClient
from perdure.text.moments import iso

if TYPE_CHECKING:
    from perdure.app.wire.resources import bots as wire_bots
    from perdure.app.wire.resources.builder import Draft, PastChoice


@dataclass(frozen=True)
class DraftView:
    """A draft as a list shows it."""

    summary: BuilderDraftSummary

    def wire(self) -> "Draft":
        """Return the one JSON form of a draft in a list."""
        draft = self.summary
        return {
            "session_id": draft.session_id,
            "initial_description": draft.initial_description,
            "phase": draft.phase,
            "mode": draft.mode,
            "revision": draft.revision,
            "updated_at": iso(draft.updated_at_us),
        }


@dataclass(frozen=True)
class ChoiceView:
    """The past choice for a bot, as every surface shows it."""

    entry: BuilderMemoryEntry

    def wire(self) -> "PastChoice":
        """Return the one JSON form of a choice."""
        entry = self.entry
        return {
            "id": entry.id,
            "category": entry.purpose_category,
            "initial_description": entry.initial_description,
            "tone": entry.chosen_tone,
            "model": entry.chosen_model,
            "skills": list(entry.chosen_skills),
            "bot_slug": entry.bot_slug,
            "created_at": iso(entry.created_at_us),
        }


@dataclass(frozen=True)
class BotView:
    """A bot as every surface shows it in a list."""

    summary: BotSummary

    def wire(self) -> "wire_bots.BotSummary":
        """Return the one JSON form of a bot in a list."""
        bot = self.summary
        return {
            "id": bot.bot_id,
            "slug": bot.slug,
            "name": bot.name,
            "category": bot.category,
            "bot_purpose": bot.purpose,
            "version": bot.version,
            "state": bot.state,
            "created_at": iso(bot.created_at_us),
            "updated_at": iso(bot.updated_at_us),
        }


async def listed_drafts(database: DatabaseClient, *, limit: int = 50) -> Sequence[DraftView]:
    """Return the drafts of a home, as `Forge.drafts` does."""
    return [DraftView(each) for each in await lists.list_drafts(database, limit=limit)]


async def listed_bots(database: DatabaseClient, *, limit: int = 50) -> Sequence[BotView]:
    """Return the bots of a home, as `Bots.list` does."""
    return [BotView(each) for each in await lists.list_bots(database, limit=limit)]
