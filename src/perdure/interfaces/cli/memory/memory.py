"""`perdure memory`: the group, and the options that several of its commands share."""

import typer

from perdure.interfaces.cli.memory import add, find, ingest, keep, transfer


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for module in (add, find, keep, transfer, ingest):
        module.register(app)
