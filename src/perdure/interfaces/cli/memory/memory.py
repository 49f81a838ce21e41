"""`perdure memory`: the group, and the options that several of its commands share."""

import typer

from perdure.interfaces.cli.memory import add, find, ingest, maintenance, transfer


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for module in (add, find, maintenance, transfer, ingest):
        module.register(app)
