"""Registers functions as commands, with the options that every command has, and runs them."""

import asyncio
import contextlib
import functools
import inspect
import logging
import os
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from perdure.errors import Invalid
from perdure.interfaces.cli.command_result import CommandResult, print_result
from perdure.interfaces.cli.logs import start_logging
from perdure.interfaces.cli.shell_hints import pasteable
from perdure.interfaces.cli.signals import interrupted_code
from perdure.settings import Settings, load_settings
from perdure.tasks import end_tasks

log = logging.getLogger(__name__)

_REST_S = 1.0

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Home = Annotated[
    str | None, typer.Option("--home", metavar="FOLDER", help="The home (default: PERDURE_HOME, or ~/.perdure).")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print the log on standard error.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
NoInput = Annotated[bool, typer.Option("--no-input", help="Never ask questions; fail instead.")]

Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="A module that defines flows, on the Python path or in the current folder (default: setting `imports`)."
        " May be repeated.",
    ),
]
"""The option of commands that run the code of flows."""

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Use this server instead of a home (default: PERDURE_URL). PERDURE_TOKEN must be its token.",
    ),
]
"""The option of commands that work with a server, and of commands that reject it with an explanation."""
URL_VARIABLE = "PERDURE_URL"
AT_HOME = "This command does not work with a server yet: run it on the machine of the home."
"""The explanation of commands that do not support a server yet."""

COMMON = {"json": Json, "home": Home, "verbose": Verbose, "debug": Debug, "no_input": NoInput}


@dataclass(frozen=True)
class Options:
    """The options that every command has."""

    json: bool
    home: str | None
    verbose: bool
    debug: bool
    no_input: bool
    imports: tuple[str, ...] = ()
    """The modules of --import, for commands that run the code of flows."""
    url: str | None = None
    """The server of --url; None without the option."""
    server: str | None = None
    """The server of --url or of the environment; None for a home."""

    def settings(self) -> Settings:
        """Load the settings; the options of this call take precedence."""
        return load_settings({"home": self.home, "imports": ",".join(self.imports)})


Command = Callable[..., Coroutine[Any, Any, CommandResult]]


def group(about: str) -> typer.Typer:
    """Return an empty group of commands, which prints its help without a command."""
    return typer.Typer(
        help=about,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def command(
    app: typer.Typer, name: str, *, runs_flows: bool = False, server: bool | str | None = None
) -> Callable[[Command], Command]:
    """Register an async function, which gets `Options` first and returns a `CommandResult`, as a command.

    With `runs_flows`, the command has the option `--import`. With `server`, it has `--url`: True if it works with a
    server, otherwise a sentence that explains why it does not.
    """

    def register(fn: Command) -> Command:
        @functools.wraps(fn)
        def call(**arguments: Any) -> None:
            imports = _imports(arguments.pop("imports", None))
            url = arguments.pop("url", None)
            common_values = {option: arguments.pop(option) for option in COMMON}
            named = None if server is None else _server(url, common_values["home"], server)
            if named is not None and imports:
                raise Invalid("--import applies to flows that run in this process; omit it with a server.")
            options = Options(**common_values, imports=imports, url=url, server=named)
            raise typer.Exit(_call(fn, name, options, arguments))

        own = list(inspect.signature(fn).parameters.values())[1:]
        common = [
            inspect.Parameter(
                option, inspect.Parameter.KEYWORD_ONLY, default=None if option == "home" else False, annotation=kind
            )
            for option, kind in COMMON.items()
        ]
        if server is not None:
            common.append(inspect.Parameter("url", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Url))
        keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        if runs_flows:
            kind = inspect.Parameter.KEYWORD_ONLY
            common.insert(0, inspect.Parameter("imports", kind, default=None, annotation=Imports))
        signature = inspect.Signature([*keyword_only, *common])
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
        del call.__wrapped__  # Typer would look through to the function's own signature
        app.command(name)(call)
        return fn

    return register


def with_options(
    name: str, options: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Any] = dict
) -> Callable[[Command], Command]:
    """Add shared options to a command, which gets `read(values)` as the argument `name`.

    The value of an unset option is None.
    """

    def add(fn: Command) -> Command:
        @functools.wraps(fn)
        async def call(common: Options, **arguments: Any) -> CommandResult:
            values = {option: arguments.pop(option, None) for option in options}
            return await fn(common, **{name: read(values)}, **arguments)

        own = [each for each in inspect.signature(fn).parameters.values() if each.name != name]
        shared = [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for option, kind in options.items()
        ]
        call.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
        return call

    return add


def server_of(url: str | None, home: str | None) -> str | None:
    """Return the server of --url or of the environment; None for a home."""
    return url if url is not None or home is not None else os.environ.get(URL_VARIABLE) or None


def _server(url: str | None, home: str | None, works: bool | str) -> str | None:
    """Return the server of a call, or None; --url and --home take precedence over the environment.

    Raises: Invalid when a home is named too, or the command does not work with a server.
    """
    if url is not None and home is not None:
        raise Invalid("Use --url or --home, not both: a command works with a server, or with a home on this machine.")
    if url is not None and not url.strip():
        raise Invalid("--url is empty; expected a server such as http://127.0.0.1:8733.")
    named = server_of(url, home)
    if named is not None and isinstance(works, str):
        where = "Omit --url" if url is not None else f"Use --home, or unset {URL_VARIABLE}"
        raise Invalid(f"{works} {where}.")
    return named


def _imports(modules: list[str] | None) -> tuple[str, ...]:
    """Return the modules of --import, after adding the current folder as the last place of the search path."""
    if modules and (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    return tuple(modules or ())


def _call(fn: Command, name: str, options: Options, arguments: dict[str, Any]) -> int:
    start_logging(options)
    start = time.monotonic()
    try:
        answer = _run(fn(options, **arguments))
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = interrupted_code()
        with contextlib.suppress(OSError):  # a terminal that has gone
            print("Interrupted." if code else "Stopped while starting.", file=sys.stderr, flush=True)
        return code
    print_result(replace(answer, data=_with_options(answer.data, options)), as_json=options.json)
    log.info("%s: exit %d after %.3f s", name, answer.exit_code, time.monotonic() - start)
    return answer.exit_code


def _run(command: Coroutine[Any, Any, CommandResult]) -> CommandResult:
    """Run a command, then wait a short time for tasks that it left behind: the code of a flow may never end."""
    runner = asyncio.Runner()
    try:
        return runner.run(command)
    finally:
        runner.run(_end_rest())
        runner.close()


async def _end_rest() -> None:
    for task in await end_tasks(asyncio.all_tasks() - {asyncio.current_task()}, _REST_S):
        from perdure.app.home.system import keep_for_ever

        keep_for_ever(task)
    # A thread cannot be ended, and closing the loop would wait for those of its executor; `main` handles them.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())


def _with_options(data: Mapping[str, Any], options: Options) -> Mapping[str, Any]:
    """Return the data with the options of this call added to the next commands of each goal."""
    is_needed = options.home is not None or options.url is not None or options.imports
    if not is_needed or not ("next" in data or "goals" in data):
        return data
    found = dict(data)
    if isinstance(found.get("goals"), list):
        found["goals"] = [_with_options(goal, options) for goal in found["goals"]]
    if isinstance(found.get("next"), list):
        found["next"] = [each | {"command": pasteable(options, each["command"])} for each in found["next"]]
    return found
