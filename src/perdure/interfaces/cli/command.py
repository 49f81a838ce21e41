"""How a function becomes a command: the options that every command has, and the call itself."""

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
from perdure.interfaces.cli.command_result import Answer, print_answer
from perdure.interfaces.cli.logs import start_logging
from perdure.interfaces.cli.shell_hints import pasteable
from perdure.interfaces.cli.signals import interrupted_code
from perdure.kernel.calls.tasks import end_tasks
from perdure.settings import Settings, load_settings

log = logging.getLogger(__name__)

_REST_S = 1.0

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Home = Annotated[str | None, typer.Option("--home", metavar="FOLDER", help="The home to use, instead of PERDURE_HOME.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say on standard error what is being done.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
NoInput = Annotated[bool, typer.Option("--no-input", help="Never ask; fail instead.")]

Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="A module that defines flows, instead of the setting `imports`; looked for in the current folder last."
        " May be given several times.",
    ),
]
"""The option of commands that run the code of flows."""

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Work with this server instead of a home, with the token in PERDURE_TOKEN; default: PERDURE_URL.",
    ),
]
"""The option of commands that can work with a server, and of those beside them that say why they cannot."""
URL_VARIABLE = "PERDURE_URL"
AT_HOME = "It is not available with a server yet: run it where the home is."
"""Why a command does not work with a server that could."""

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
    """Modules that define flows, given to a command that runs the code of flows."""
    url: str | None = None
    """The server to work with, where a flag names one."""
    server: str | None = None
    """The server to work with, from the flag or else from the environment; None for a home."""

    def settings(self) -> Settings:
        """Load the settings, with the flags of this call on top."""
        return load_settings({"home": self.home, "imports": ",".join(self.imports)})


Command = Callable[..., Coroutine[Any, Any, Answer]]


def group(about: str) -> typer.Typer:
    """Return an empty group, which shows its help when it is called alone."""
    return typer.Typer(
        help=about,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def command(
    app: typer.Typer, name: str, *, runs_flows: bool = False, server: bool | str | None = None
) -> Callable[[Command], Command]:
    """Register an async function, which gets `Options` first and returns an `Answer`, as a command.

    A command that runs the code of flows has the option `--import` too. One with `server` has `--url`: True when it
    works with a server, otherwise the sentence that says why it does not.
    """

    def register(fn: Command) -> Command:
        @functools.wraps(fn)
        def call(**arguments: Any) -> None:
            imports = _imports(arguments.pop("imports", None))
            url = arguments.pop("url", None)
            given = {option: arguments.pop(option) for option in COMMON}
            named = None if server is None else _server(url, given["home"], server)
            if named is not None and imports:
                raise Invalid("--import is for flows that run in this process; with a server, leave it out.")
            options = Options(**given, imports=imports, url=url, server=named)
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
    """Give a command options that it shares with others; it gets what `read` makes of their values as `name`.

    An option that is not given is None.
    """

    def add(fn: Command) -> Command:
        @functools.wraps(fn)
        async def call(common: Options, **arguments: Any) -> Answer:
            given = {option: arguments.pop(option, None) for option in options}
            return await fn(common, **{name: read(given)}, **arguments)

        own = [each for each in inspect.signature(fn).parameters.values() if each.name != name]
        shared = [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for option, kind in options.items()
        ]
        call.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
        return call

    return add


def server_of(url: str | None, home: str | None) -> str | None:
    """Return the server that a call names, by its flag or else by the environment; None when it names a home."""
    return url if url is not None or home is not None else os.environ.get(URL_VARIABLE) or None


def _server(url: str | None, home: str | None, works: bool | str) -> str | None:
    """Return the server that a call is for, if it is for one: a flag counts more than the environment.

    Raises: Invalid when a home is named too, or the command does not work with a server.
    """
    if url is not None and home is not None:
        raise Invalid("Give --url or --home, not both: a command works with a server, or with a home on this machine.")
    if url is not None and not url.strip():
        raise Invalid("--url is empty. Expected a server such as http://127.0.0.1:8733.")
    named = server_of(url, home)
    if named is not None and isinstance(works, str):
        where = "Leave out --url" if url is not None else f"Give --home, or unset {URL_VARIABLE}"
        raise Invalid(f"{works} {where}.")
    return named


def _imports(given: list[str] | None) -> tuple[str, ...]:
    """Return the modules that were named, and let them be found in the current folder if nowhere else."""
    if given and (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    return tuple(given or ())


def _call(fn: Command, name: str, options: Options, arguments: dict[str, Any]) -> int:
    start_logging(options)
    start = time.monotonic()
    try:
        answer = _run(fn(options, **arguments))
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = interrupted_code()
        with contextlib.suppress(OSError):  # a terminal that has gone
            print("Interrupted." if code else "Ended while starting.", file=sys.stderr, flush=True)
        return code
    print_answer(replace(answer, data=_with_options(answer.data, options)), as_json=options.json)
    log.info("%s: exit %d after %.3f s", name, answer.exit_code, time.monotonic() - start)
    return answer.exit_code


def _run(command: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a command to its end, and what it has left behind for a short time only: the code of a flow may never end."""
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
    # A thread cannot be ended. Closing the loop would wait for those of its executor; see `main` for the rest.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())


def _with_options(data: Mapping[str, Any], options: Options) -> Mapping[str, Any]:
    """Return the data of an answer with the options of this call in the next commands of each goal."""
    is_needed = options.home is not None or options.url is not None or options.imports
    if not is_needed or not ("next" in data or "goals" in data):
        return data
    found = dict(data)
    if isinstance(found.get("goals"), list):
        found["goals"] = [_with_options(goal, options) for goal in found["goals"]]
    if isinstance(found.get("next"), list):
        found["next"] = [each | {"command": pasteable(options, each["command"])} for each in found["next"]]
    return found
