"""The working folders of goals: a folder that the caller named, or a folder of the goal in the home."""

from pathlib import Path

from perdure.app.home.system import is_goal_id
from perdure.files.folders import ensure_folder
from perdure.kernel.events import GoalBegun

WORK = "work"
"""The folder of a home with a folder for each goal of a server."""


def own_workdir(home: Path, goal_id: str) -> Path:
    """Return the folder in the home for a goal whose caller did not name a folder."""
    return home / WORK / goal_id


def is_own_workdir(workdir: str) -> bool:
    """Return whether a folder is the folder of a goal in some home, and was not named by a caller."""
    place = Path(workdir)
    return place.parent.name == WORK and is_goal_id(place.name)


def existing_workdir(home: Path, begun: GoalBegun) -> str:
    """Return the folder of an existing goal; a folder in the home that started it is mapped to this home.

    A home may have been copied, moved or restored elsewhere: a goal of a copy must not write into the original.
    """
    place = Path(begun.workdir or home)
    if not is_own_workdir(str(place)):
        return str(place)
    ours = own_workdir(home, place.name)
    ensure_folder(ours)
    return str(ours)
