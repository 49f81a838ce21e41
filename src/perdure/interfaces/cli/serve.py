"""`perdure serve`: the API on this machine, behind its doors."""

import sys
from typing import Annotated

import typer

from perdure.app import open_home
from perdure.interfaces.cli.answer import Answer
from perdure.interfaces.cli.command import Options, command


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app, "serve")
    async def serve(
        options: Options,
        port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 8733,
        host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
        expose: Annotated[
            bool, typer.Option("--expose", help="Allow an address that other machines can reach.")
        ] = False,
        name: Annotated[
            list[str] | None, typer.Option("--name", help="Answer under this name too; may be given several times.")
        ] = None,
    ) -> Answer:
        """Serve this home over HTTP and WebSocket until Ctrl-C, and run the goals that are started there."""
        from perdure.interfaces.api.server import Address
        from perdure.interfaces.api.server import serve as run

        settings = options.settings()
        address = Address(host, port, is_exposed=expose, names=tuple(name or ()))
        async with open_home(settings) as p:
            await run(p, address, _told, _waits)
        return Answer({"served": True}, ["Ended. Goals that were running go on when the server is started again."])


def _told(url: str) -> None:
    print(f"Open this once in a browser, within ten minutes:\n  {url}\n", file=sys.stderr)
    print(
        "Programs use the token that `perdure token show` prints. Ctrl-C ends the server.", file=sys.stderr, flush=True
    )


def _waits() -> None:
    print("Ending; steps that run have ten seconds to finish.", file=sys.stderr, flush=True)
