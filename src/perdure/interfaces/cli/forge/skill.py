"""`perdure skill`: built-in skills and the skills of a home."""

import os
import sys
from pathlib import Path
from typing import Annotated

import click
import typer

from perdure.errors import Invalid, NotFound
from perdure.interfaces.cli.command import AT_HOME, Options, command
from perdure.interfaces.cli.command_result import CommandResult, Table
from perdure.interfaces.cli.files import read_file
from perdure.interfaces.cli.shell_hints import exact


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, "list", server=AT_HOME)(list_skills)
    command(app, "ls", server=AT_HOME)(list_skills)
    for fn in (show, create, edit):
        command(app, fn.__name__, server=AT_HOME)(fn)
    command(app, "validate")(validate)


async def list_skills(options: Options) -> CommandResult:
    """List the skills that a bot can have: the built-in ones, then those of this home."""
    from perdure.app.builder.skills import open_skills

    skills = [skill.wire() for skill in await open_skills(options.settings()).list()]
    rows = [[skill["name"], skill["origin"], skill["description"]] for skill in skills]
    return CommandResult(
        {"skills": skills}, [Table(["skill", "origin", "what it does"], rows, whole=["skill", "origin"])]
    )


async def show(
    options: Options,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The skill.")],
) -> CommandResult:
    """Show a skill with its instructions."""
    from perdure.app.builder.skills import open_skills

    found = await open_skills(options.settings()).get(name)
    skill = found.skill
    return CommandResult(found.details_wire(), [f"{skill.name}: {skill.description}", "", skill.instructions])


async def validate(
    options: Options,
    *,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A SKILL.md, the folder that contains it, or the name of a skill.")
    ],
) -> CommandResult:
    """Validate a file, or a skill of this home, against the Agent Skills format."""
    from perdure.app.builder.skills import MAX_BYTES, SKILL_FILE, read_skill

    if len(file.parts) == 1 and not os.path.lexists(file) and (known := await _validate_known(options, str(file))):
        return known
    path = file / SKILL_FILE if file.is_dir() else file
    skill = read_skill(read_file(path, MAX_BYTES), path)
    return CommandResult({"name": skill.name, "description": skill.description}, [f"{path} is the skill {skill.name}."])


async def _validate_known(options: Options, name: str) -> CommandResult | None:
    """Validate a skill by its name; None when the home has no skill of that name."""
    from perdure.app.builder.names import is_skill_name
    from perdure.app.builder.skills import open_skills

    try:
        skill = (await open_skills(options.settings()).get(name)).skill
    except (NotFound, Invalid) as error:
        if isinstance(error, Invalid) and is_skill_name(name):
            raise
        return None
    return CommandResult({"name": skill.name, "description": skill.description}, [f"{name} is the skill {skill.name}."])


async def create(
    options: Options,
    *,
    description: Annotated[
        str, typer.Argument(metavar="TEXT", help="The purpose of the skill, and how the task is done.")
    ],
    name: Annotated[str | None, typer.Option("--name", help="The name (default: derived from the text).")] = None,
    capability: Annotated[
        list[str] | None,
        typer.Option(
            "--capability", help="A capability such as read-files; may be repeated (default: derived from the text)."
        ),
    ] = None,
) -> CommandResult:
    """Create a skill for the bots of this home. Repeating the same call changes nothing."""
    from perdure.app.builder.skills import open_skills

    settings = options.settings()
    made = (
        await open_skills(settings).create(
            {"description": description, "name": name, "capabilities": capability or None}
        )
    ).created_wire()
    reasons = [f"  {each['name']}: {each['reason']}" for each in made["capabilities"]]
    return CommandResult(
        made,
        [
            f"Created the skill {made['name']}: {settings.home / made['path']}",
            *(["Capabilities:", *reasons] if reasons else ["It needs no capabilities."]),
            f"Edit it: {exact(options, 'skill', 'edit', made['name'])}",
        ],
    )


async def edit(
    options: Options,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A skill of this home.")],
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="Read the new text from this file instead of opening an editor."
        ),
    ] = None,
) -> CommandResult:
    """Edit a skill in $VISUAL or $EDITOR, or from a file; the text is validated before it replaces the old one."""
    from perdure.app.builder.skills import MAX_BYTES, decode_text, open_skills

    skills = open_skills(options.settings())
    before = await skills.text(name)
    text = decode_text(read_file(file, MAX_BYTES), str(file)) if file is not None else _edit_text(options, before, name)
    if text == before:
        return CommandResult({"name": name, "changed": False}, [f"The skill {name} was not changed."])
    found = await skills.edit(name, text, seen=before)
    return CommandResult(
        {**found.details_wire(), "changed": True}, [f"The skill {name} was changed; existing bots keep their copy."]
    )


def _edit_text(options: Options, text: str, name: str) -> str:
    """Open the text in an editor, and return the edited text.

    Raises: Invalid when there is no terminal, or the editor fails.
    """
    if options.no_input or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Invalid(f"There is no terminal for an editor. Pass the new text: perdure skill edit {name} --file FILE.")
    try:
        edited = click.edit(text, extension=".md", require_save=False)
    except click.ClickException as error:
        raise Invalid(f"The editor failed: {error.message}. Set $EDITOR, or use --file FILE.") from None
    return text if edited is None else edited
