"""The use cases: what every surface calls.

May import: every feature, the store, the leaves. The composition root is a module of its own, imported when one of its
names is first used: `from perdure.app import Perdure, open_home`. The package itself imports nothing, so that a use
case that needs no store, such as the token of a home, loads none.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.app.composition import (
        Perdure,
        look_into_home,
        open_ephemeral,
        open_home,
        open_unchanged,
        resume_lines_of,
    )

__all__ = ["Perdure", "look_into_home", "open_ephemeral", "open_home", "open_unchanged", "resume_lines_of"]


def _public(name: str) -> Any:
    """Import a name of the composition root when it is first used.

    Raises: AttributeError
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("perdure.app.composition"), name)


if not TYPE_CHECKING:
    __getattr__ = _public  # a type checker would accept any name


def __dir__() -> list[str]:
    """List the public names, also those that were not imported yet."""
    return [*__all__]
