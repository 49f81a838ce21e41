"""The tables as they are after the newest migration, a module for each feature; a test compares the two.

May import: the ports of features, the store's types.
"""

from perdure.store.schema import forge, goals, once, projects
from perdure.store.schema.parts import metadata

__all__ = ["VIEWS", "forge", "goals", "metadata", "once", "projects"]

VIEWS = ("requirement_list", "task_list")
"""Views are written in the migrations only: their SQL differs between the databases."""
