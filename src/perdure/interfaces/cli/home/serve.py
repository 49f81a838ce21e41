"""`perdure serve`: runs the HTTP and WebSocket server of a home."""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.app import open_home
from perdure.app.home.server_mark import marked_as_server
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult, print_result
from perdure.interfaces.cli.shell_hints import exact

if TYPE_CHECKING:
    from perdure.interfaces.api.server import Running


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app, "serve", runs_flows=True)
    async def serve(
        options: Options,
        port: Annotated[
            int, typer.Option("--port", min=0, max=65535, help="The port (default: 8733); 0 selects a free one.")
        ] = 8733,
        host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
        expose: Annotated[
            bool, typer.Option("--expose", help="Allow an address that other machines can reach.")
        ] = False,
        name: Annotated[
            list[str] | None, typer.Option("--name", help="Also accept requests for this host name; may be repeated.")
        ] = None,
    ) -> CommandResult:
        """Serve this home over HTTP and WebSocket until Ctrl-C, and run the goals that clients start."""
        from perdure.app.workers.flows import import_modules
        from perdure.interfaces.api.server import Address
        from perdure.interfaces.api.server import serve as run

        settings = options.settings()
        import_modules(settings.imports)
        address = Address(host, port, is_exposed=expose, names=tuple(name or ()))
        async with open_home(settings) as p:
            with marked_as_server(settings.home) as publish:
                cut_short = await run(p, address, partial(_announce, options, publish), _print_stopping)
        return CommandResult({}, [_stopped_line(options, cut_short)], is_printed=True)


def _announce(options: Options, publish: Callable[[str], None], server: "Running") -> None:
    """Print the URL of the server, flushed at once for a program that reads it from standard output.

    The login URL has a secret code, so it is printed only on a terminal: a file or pipe may be a log that others read.
    """
    publish(server.url)
    is_terminal = sys.stdout.isatty() and sys.stderr.isatty()
    login_url = server.login_url() if is_terminal else None
    if options.json:
        started = CommandResult({"url": server.url, "login_url": login_url, "pid": os.getpid()}, is_one_line=True)
        print_result(started, as_json=True)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keeps later prints of flows out of the JSON output
    home = options.settings().home
    print(f"Serving {home} at {server.url}. Ctrl-C stops the server.", file=sys.stderr)
    if login_url is not None:
        print(f"Log in with a browser, once, within ten minutes:\n  {login_url}", file=sys.stderr)
    else:
        print(f"`{exact(options, 'token', 'url')}` prints a URL that logs a browser in.", file=sys.stderr)
    shown = exact(options, "token", "show")
    print(f"Programs use the token that `{shown}` prints.", file=sys.stderr, flush=True)


def _print_stopping() -> None:
    print("Stopping; running steps have ten seconds to finish. Ctrl-C ends them now.", file=sys.stderr, flush=True)


def _stopped_line(options: Options, cut_short: int) -> str:
    if not cut_short:
        return "Stopped. Goals that were running resume when the server starts again."
    waiting = exact(options, "goal", "list", "--status", "waiting")
    goals = "1 goal was" if cut_short == 1 else f"{cut_short} goals were"
    return (
        f"Stopped. {goals} interrupted in a step and resumes at the next start of the server. If the outcome of a step"
        f" is unknown, the goal asks first: `{waiting}`."
    )
