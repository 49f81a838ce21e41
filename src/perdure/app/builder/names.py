"""Names of bots, of their files and of skills, checked before a use case is called."""

from perdure.bots.folder import require_bot_path
from perdure.bots.skills import is_skill_name
from perdure.bots.slugs import require_slug, slug_of

__all__ = ["is_skill_name", "require_bot_path", "require_slug", "slug_of"]
