"""`perdure memory`: registers the commands of its modules."""

import typer

from perdure.interfaces.cli.memory import add, find, ingest, maintenance, pins, transfer


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for module in (add, find, pins, maintenance, transfer, ingest):
        module.register(app)
