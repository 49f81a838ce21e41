"""The words of Forge that interfaces show, such as purposes and phases, without importing the rest of Forge."""

from typing import TYPE_CHECKING

from perdure.forge.vocabulary import WITHOUT_MODEL, BotPurpose, BuilderMode, BuilderPhase, EngineName, PurposeCategory

if TYPE_CHECKING:
    from perdure.app.wire.resources.bots import Bot, BotSummary

__all__ = ["WITHOUT_MODEL", "BuilderMode", "BuilderPhase", "EngineName", "PurposeCategory", "purpose_title"]


def purpose_title(bot: "Bot | BotSummary") -> str:
    """Return the title of the purpose of a bot; if the purpose is unknown, that of its category.

    A newer server may have purposes that this client does not know.
    """
    purpose = bot["bot_purpose"]
    known = BotPurpose(purpose) if purpose in set(BotPurpose) else BotPurpose.OTHER
    return known.title_for(bot["category"])
