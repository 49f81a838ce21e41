"""`perdure token`: what a program shows to the server, and how a browser comes in."""

from typing import Annotated

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

    @command(app, "url")
    async def url(
        options: Options,
        port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Where the server listens.")] = 8733,
    ) -> Answer:
        """Print another one-time URL for a browser, which a server of this home on this machine takes."""
        from perdure.interfaces.api.codes import LASTS_S, login_url

        made = login_url(f"http://127.0.0.1:{port}", options.settings().home)
        return Answer({"url": made, "lasts_s": LASTS_S}, [made])
