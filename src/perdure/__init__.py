"""Perdure: a home for AI agents that cannot lose their work."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.app import Perdure
    from perdure.errors import (
        Conflict,
        Damaged,
        Denied,
        Exhausted,
        Invalid,
        NotFound,
        PerdureError,
        Unavailable,
        Waiting,
    )
    from perdure.store.client import DatabaseClient

__version__ = "0.1.0"

__all__ = [
    "Conflict",
    "Damaged",
    "DatabaseClient",
    "Denied",
    "Exhausted",
    "Invalid",
    "NotFound",
    "Perdure",
    "PerdureError",
    "Unavailable",
    "Waiting",
]

_HOMES = {"Perdure": "perdure.app", "DatabaseClient": "perdure.store.client"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that `import perdure` costs next to nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "perdure.errors")), name)
