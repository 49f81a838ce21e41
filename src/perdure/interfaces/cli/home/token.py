"""`perdure token`: the token of programs, and login URLs for browsers."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from perdure.app.access.login_codes import LASTS_S, login_url
from perdure.app.access.token import read_token, rotate_token
from perdure.app.home.server_mark import server_urls
from perdure.errors import Conflict
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult

_DEFAULT_PORT = 8733


def register(app: typer.Typer) -> None:
    """Add the commands."""

    @command(app, "show")
    async def show(options: Options) -> CommandResult:
        """Print the token of this home; create it if it does not exist."""
        token = read_token(options.settings().home)
        return CommandResult({"token": token}, [token])

    @command(app, "rotate")
    async def rotate(options: Options) -> CommandResult:
        """Replace the token. The old one and all login sessions become invalid; open connections are closed."""
        token = rotate_token(options.settings().home)
        return CommandResult({"token": token}, [token])

    @command(app, "url")
    async def url(
        options: Options,
        port: Annotated[
            int | None,
            typer.Option(
                "--port", min=1, max=65535, help="Port of the server (default: the running server's port, else 8733)."
            ),
        ] = None,
    ) -> CommandResult:
        """Print a new one-time URL that logs a browser in to the running server of this home."""
        home = options.settings().home
        server, is_running = _server(home, port)
        made = login_url(server, home)
        if not is_running and not options.json:
            print(
                f"No server of this home runs at {server}. Start one with `perdure serve` before you open the URL.",
                file=sys.stderr,
            )
        return CommandResult({"url": made, "lasts_s": LASTS_S, "is_running": is_running}, [made])


def _server(home: Path, port: int | None) -> tuple[str, bool]:
    """Return the URL of the server to log in to, and whether it runs.

    Raises: Conflict when several servers run and the port does not select one.
    """
    found = [url for url in server_urls(home) if port is None or url.endswith(f":{port}")]
    if len(found) > 1:
        raise Conflict(f"Several servers run on this home: {', '.join(found)}. Choose one with --port.")
    return (found[0], True) if found else (f"http://127.0.0.1:{port or _DEFAULT_PORT}", False)
