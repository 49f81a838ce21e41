"""The tables after the newest migration, one module per feature; a test compares them with the migrations.

May import: the ports of features, the types of the store.
"""

from perdure.store.schema import forge, goals, once, projects
from perdure.store.schema.parts import metadata

__all__ = ["VIEWS", "forge", "goals", "metadata", "once", "projects"]

VIEWS = ("requirement_list", "task_list")
"""Views are defined only in migrations, because their SQL differs between the databases."""
