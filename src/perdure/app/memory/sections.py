"""Related history as a section of a text that people edit, too."""

from collections.abc import Mapping
from typing import Any

from perdure.memory.query.hosting import hosting_here
from perdure.memory.query.markdown import apply_section, section

__all__ = ["apply_section", "render_section"]


def render_section(found: Mapping[str, Any]) -> str:
    """Return the matches of `related` as a section, with links to the host of the repository; empty without matches.

    The host is that of the CI, else that of the remote `origin`.
    """
    matches = found["matches"]
    hosting = hosting_here() if matches else None
    return section(matches, truncated=found["truncated"], more=found.get("more"), hosting=hosting)
