"""What is told of a bot that was just made or changed, and what one does next."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure.app.builder.sessions import SessionView
from perdure.bots.slugs import slug_of
from perdure.forge.assembly.assembly import AssemblyResult
from perdure.forge.interview.finish import shown_model
from perdure.forge.questions.wishes import wished_fields
from perdure.forge.turns import ReadyToAssemble
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.shell_hints import exact

_SHOWN = 60


def built(
    options: Options, home: Path | None, session: SessionView, result: AssemblyResult, changes: Mapping[str, Any]
) -> Answer:
    """Tell what an interview has come to."""
    clashes = [
        f"Your text was kept in {name}; what Forge would have written is in {name}.new." for name in result.clashes
    ]
    parts = [
        f"{result.bot_name} is ready: {result.bot_slug}, version {result.version}.",
        *_taken(result),
        *_files(options, home, result),
        *_models(session),
        *clashes,
        *_next(options, result),
    ]
    return Answer({"result": result.model_dump(mode="json"), **changes}, parts)


def unchanged(session: SessionView, result: AssemblyResult, changes: Mapping[str, Any]) -> Answer:
    """Tell that a reconfiguration has changed nothing, and why where a request was not understood."""
    parts = [f"Nothing has changed; version {result.version} stays."]
    request = session.initial_description
    if request != f"Change {result.bot_slug}" and not wished_fields(request):
        parts.append(f"{request[:_SHOWN]!r} names no tone, name or rule. Without --yes, you are asked about it.")
    return Answer({"result": result.model_dump(mode="json"), **changes}, parts)


def imported(options: Options, home: Path | None, result: AssemblyResult) -> Answer:
    """Tell what a file has become: a new bot, each time."""
    parts = [
        f"{result.bot_name} is here: {result.bot_slug}, version {result.version}.",
        *_taken(result),
        *_files(options, home, result),
        *_next(options, result),
    ]
    return Answer({"result": result.model_dump(mode="json")}, parts)


def _taken(result: AssemblyResult) -> list[str]:
    """Say why a new bot is not called as its name would have it."""
    wanted = slug_of(result.bot_name)
    if result.version > 1 or result.bot_slug == wanted:
        return []
    return [f"There was a bot {wanted} already; it was not changed, and this one has a slug of its own."]


def _files(options: Options, home: Path | None, result: AssemblyResult) -> list[str]:
    """Say where the files of a bot are; those of a server are in its home, which may be on another machine."""
    paths = (result.soul_path, result.identity_path, result.user_path)
    where = [f"  {path}" if home is None else f"  {home / path}" for path in paths]
    at_server = [f"Its files are in the home of {options.server}:"] if home is None else []
    return [
        "\n".join([*at_server, *where]),
        f"  skills: {', '.join(result.skills_attached) or 'none'}",
    ]


def _models(session: SessionView) -> list[str]:
    return [f"  model: {shown_model(session.turn.config)}"] if isinstance(session.turn, ReadyToAssemble) else []


def _next(options: Options, result: AssemblyResult) -> list[str]:
    return [
        f"Look at it: {exact(options, 'bot', 'show', result.bot_slug)}",
        f"Change it:  {exact(options, 'new', '--reconfigure', result.bot_slug)}",
        "There is no chat yet: you cannot talk to it here. Give its prompt to a model or an agent of your own:",
        f"  {exact(options, 'bot', 'show', result.bot_slug, '--prompt')}",
    ]
