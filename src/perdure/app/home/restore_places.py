"""The parts of a home that a backup contains and a restore replaces."""

from perdure.bots import LOCK_FILE
from perdure.memory.paths import LOCK_FILES
from perdure.settings import Settings
from perdure.store.backup.places import Places
from perdure.store.target import parse_target


def restore_places(settings: Settings) -> Places:
    """Return the parts of a home that a backup contains, with the paths to restore them to."""
    return Places(
        home=settings.home,
        database=parse_target(settings.database_url),
        folders={"bots": settings.bots_dir, "skills": settings.skills_dir, "memory": settings.memory_state_dir},
        locks={"bots": (LOCK_FILE,), "memory": LOCK_FILES},
    )
