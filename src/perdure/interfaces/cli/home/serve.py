"""`perdure serve`: serves the API on this machine."""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.app import open_home
from perdure.app.home.server_mark import marked_as_server
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer, print_answer
from perdure.interfaces.cli.shell_hints import exact

if TYPE_CHECKING:
    from perdure.interfaces.api.server import Running


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app, "serve", runs_flows=True)
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
        from perdure.app.workers.flows import import_modules
        from perdure.interfaces.api.server import Address
        from perdure.interfaces.api.server import serve as run

        settings = options.settings()
        import_modules(settings.imports)
        address = Address(host, port, is_exposed=expose, names=tuple(name or ()))
        async with open_home(settings) as p:
            with marked_as_server(settings.home) as publish:
                cut_short = await run(p, address, partial(_told, options, publish), _waits)
        return Answer({}, [_ended(options, cut_short)], is_told=True)


def _told(options: Options, publish: Callable[[str], None], server: "Running") -> None:
    """Say where the server is, now: a program that started it reads that from standard output.

    The code of the login URL is printed on a terminal only: what is not a terminal may be a log that others read.
    """
    publish(server.url)
    is_terminal = sys.stdout.isatty() and sys.stderr.isatty()
    login_url = server.login_url() if is_terminal else None
    if options.json:
        told = Answer({"url": server.url, "login_url": login_url, "pid": os.getpid()}, is_one_line=True)
        print_answer(told, as_json=True)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a flow prints from now on is not for programs
    home = options.settings().home
    print(f"Serving {home} at {server.url}. Ctrl-C ends the server.", file=sys.stderr)
    if login_url is not None:
        print(f"Log in with a browser, once, within ten minutes:\n  {login_url}", file=sys.stderr)
    else:
        print(f"`{exact(options, 'token', 'url')}` prints a URL that logs a browser in.", file=sys.stderr)
    shown = exact(options, "token", "show")
    print(f"Programs use the token that `{shown}` prints.", file=sys.stderr, flush=True)


def _waits() -> None:
    print("Ending; steps that run have ten seconds to finish. Ctrl-C ends them now.", file=sys.stderr, flush=True)


def _ended(options: Options, cut_short: int) -> str:
    if not cut_short:
        return "Ended. Goals that were running go on when the server is started again."
    waiting = exact(options, "goal", "list", "--status", "waiting")
    goals = "1 goal was" if cut_short == 1 else f"{cut_short} goals were"
    return (
        f"Ended, and the steps that {goals} at. They go on when the server is started again; a goal that cannot know"
        f" whether its step happened asks first: `{waiting}`."
    )
