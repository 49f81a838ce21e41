"""`perdure token`: what a program shows to the server."""

import typer

from perdure.interfaces.cli.answer import Answer
from perdure.interfaces.cli.command import Options, command


def register(app: typer.Typer) -> None:
    """Add the commands."""

    @command(app, "show")
    async def show(options: Options) -> Answer:
        """Print the token of this home; one is made where there is none."""
        from perdure.interfaces.api.doors import read_token

        token = read_token(options.settings().home)
        return Answer({"token": token}, [token])

    @command(app, "rotate")
    async def rotate(options: Options) -> Answer:
        """Make a new token; the old one is worth nothing from now on, and open connections are closed."""
        from perdure.interfaces.api.doors import rotate_token

        token = rotate_token(options.settings().home)
        return Answer({"token": token}, [token])
