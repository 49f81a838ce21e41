"""The output after a bot was created or changed, with the next commands."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure.app.builder.names import slug_of
from perdure.app.builder.sessions import SessionView
from perdure.app.builder.values import AssemblyResult, ReadyToAssemble, requested_fields, shown_model
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.shell_hints import exact

_SHOWN = 60


def describe_built(
    options: Options, home: Path | None, session: SessionView, result: AssemblyResult, changes: Mapping[str, Any]
) -> CommandResult:
    """Describe the result of an interview."""
    clashes = [
        f"{name} lacks a part of the change, because your edits conflict with it. Merge {name}.new by hand."
        for name in result.clashes
    ]
    parts = [
        f"{result.bot_name} is ready: {result.bot_slug}, version {result.version}.",
        *clashes,
        *_slug_note(result),
        *_file_lines(options, home, result),
        *_model_lines(session),
        *_next_steps(options, result),
    ]
    return CommandResult({"result": result.model_dump(mode="json"), **changes}, parts)


def describe_unchanged(session: SessionView, result: AssemblyResult, changes: Mapping[str, Any]) -> CommandResult:
    """Describe a reconfiguration that changed nothing, and why if the request was not understood."""
    parts = [f"Nothing changed; version {result.version} stays current."]
    request = session.initial_description
    if request != f"Change {result.bot_slug}" and not requested_fields(request):
        parts.append(f"{request[:_SHOWN]!r} names no tone, name or rule. Run it without --yes to be asked.")
    return CommandResult({"result": result.model_dump(mode="json"), **changes}, parts)


def describe_imported(options: Options, home: Path | None, result: AssemblyResult) -> CommandResult:
    """Describe the bot that was imported from a file."""
    parts = [
        f"{result.bot_name} was imported: {result.bot_slug}, version {result.version}.",
        *_slug_note(result),
        *_file_lines(options, home, result),
        *_next_steps(options, result),
    ]
    return CommandResult({"result": result.model_dump(mode="json")}, parts)


def _slug_note(result: AssemblyResult) -> list[str]:
    """Return why the slug of a new bot differs from its name."""
    wanted = slug_of(result.bot_name)
    if result.version > 1 or result.bot_slug == wanted:
        return []
    return [f"The slug {wanted} belongs to an existing bot, which was not changed."]


def _file_lines(options: Options, home: Path | None, result: AssemblyResult) -> list[str]:
    """Return the paths of a bot's files; files of a server are in its home, which may be on another machine."""
    paths = (result.soul_path, result.identity_path, result.user_path)
    where = [f"  {path}" if home is None else f"  {home / path}" for path in paths]
    at_server = [f"Its files are in the home of {options.server}:"] if home is None else []
    return [
        "\n".join([*at_server, *where]),
        f"  skills: {', '.join(result.skills_attached) or 'none'}",
    ]


def _model_lines(session: SessionView) -> list[str]:
    return [f"  model: {shown_model(session.turn.config)}"] if isinstance(session.turn, ReadyToAssemble) else []


def _next_steps(options: Options, result: AssemblyResult) -> list[str]:
    return [
        f"Talk to it: {exact(options, 'chat', result.bot_slug)}",
        f"Show it:    {exact(options, 'bot', 'show', result.bot_slug)}",
        f"Change it:  {exact(options, 'new', '--reconfigure', result.bot_slug)}",
    ]
