"""What is told of a bot that was just made or changed, and what one does next."""

from collections.abc import Mapping
from typing import Any

from perdure.app import Perdure
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
    options: Options, p: Perdure, session: SessionView, result: AssemblyResult, changes: Mapping[str, Any]
) -> Answer:
    """Tell what an interview has come to."""
    clashes = [
        f"Your text was kept in {name}; what Forge would have written is in {name}.new." for name in result.clashes
    ]
    parts = [
        f"{result.bot_name} is ready: {result.bot_slug}, version {result.version}.",
        *_taken(result),
        *_files(p, result),
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


def imported(options: Options, p: Perdure, result: AssemblyResult) -> Answer:
    """Tell what a file has become: a new bot, each time."""
    parts = [
        f"{result.bot_name} is here: {result.bot_slug}, version {result.version}.",
        *_taken(result),
        *_files(p, result),
        *_next(options, result),
    ]
    return Answer({"result": result.model_dump(mode="json")}, parts)


def _taken(result: AssemblyResult) -> list[str]:
    """Say why a new bot is not called as its name would have it."""
    wanted = slug_of(result.bot_name)
    if result.version > 1 or result.bot_slug == wanted:
        return []
    return [f"There was a bot {wanted} already; it was left as it is, and this one has a slug of its own."]


def _files(p: Perdure, result: AssemblyResult) -> list[str]:
    paths = (result.soul_path, result.identity_path, result.user_path)
    return [
        "\n".join(f"  {p.settings.home / path}" for path in paths),
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
