"""Words for bots and interviews: purposes, categories, modes and phases. Lists load nothing else of Forge."""

from typing import TYPE_CHECKING

from perdure.forge.vocabulary import BotPurpose, BuilderMode, BuilderPhase, EngineName, PurposeCategory

if TYPE_CHECKING:
    from perdure.app.wire.resources.bots import Bot, BotSummary

__all__ = ["BuilderMode", "BuilderPhase", "EngineName", "PurposeCategory", "purpose_title"]


def purpose_title(bot: "Bot | BotSummary") -> str:
    """Return what a bot was made for; a purpose that only a newer server knows is called as its category."""
    purpose = bot["bot_purpose"]
    known = BotPurpose(purpose) if purpose in set(BotPurpose) else BotPurpose.OTHER
    return known.title_for(bot["category"])
