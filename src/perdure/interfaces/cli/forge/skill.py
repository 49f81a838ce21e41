"""`perdure skill`: the skills that a bot can have."""

import os
import sys
from pathlib import Path
from typing import Annotated

import click
import typer

from perdure.errors import Invalid, NotFound
from perdure.interfaces.cli.command import AT_HOME, Options, command
from perdure.interfaces.cli.command_result import Answer, Table
from perdure.interfaces.cli.files import read_file
from perdure.interfaces.cli.shell_hints import exact


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, "list", server=AT_HOME)(list_skills)
    command(app, "ls", server=AT_HOME)(list_skills)
    for fn in (show, create, edit):
        command(app, fn.__name__, server=AT_HOME)(fn)
    command(app, "validate")(validate)


async def list_skills(options: Options) -> Answer:
    """List the skills that a bot can have: those that are built in, then those that were made here."""
    from perdure.app.builder.skills import open_skills

    skills = [skill.wire() for skill in await open_skills(options.settings()).list()]
    rows = [[skill["name"], skill["origin"], skill["description"]] for skill in skills]
    return Answer({"skills": skills}, [Table(["skill", "origin", "what it does"], rows, whole=["skill", "origin"])])


async def show(
    options: Options,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The skill.")],
) -> Answer:
    """Show what a skill tells a bot."""
    from perdure.app.builder.skills import open_skills

    found = await open_skills(options.settings()).get(name)
    skill = found.skill
    return Answer(found.whole(), [f"{skill.name}: {skill.description}", "", skill.instructions])


async def validate(
    options: Options,
    *,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A SKILL.md, the folder that it lies in, or the name of a skill.")
    ],
) -> Answer:
    """Validate a file, or a skill of this home, against the Agent Skills format."""
    from perdure.bots.documents import MAX_BYTES, decoded
    from perdure.bots.skills import SKILL_FILE, parse_skill

    if len(file.parts) == 1 and not os.path.lexists(file) and (known := await _known(options, str(file))):
        return known
    path = file / SKILL_FILE if file.is_dir() else file
    text = decoded(read_file(path, MAX_BYTES), str(path))
    folder = Path(os.path.abspath(path)).parent.name if path.name == SKILL_FILE else None
    skill = parse_skill(text, str(path), folder=folder)
    return Answer({"name": skill.name, "description": skill.description}, [f"{path} is the skill {skill.name}."])


async def _known(options: Options, name: str) -> Answer | None:
    """Validate a skill that this home knows by name; None when it knows none."""
    from perdure.app.builder.skills import open_skills
    from perdure.forge.config import SKILL_NAME  # it imports pydantic, which a list does not need

    try:
        skill = (await open_skills(options.settings()).get(name)).skill
    except (NotFound, Invalid) as error:
        if isinstance(error, Invalid) and SKILL_NAME.fullmatch(name):
            raise
        return None
    return Answer({"name": skill.name, "description": skill.description}, [f"{name} is the skill {skill.name}."])


async def create(
    options: Options,
    *,
    description: Annotated[str, typer.Argument(metavar="TEXT", help="What the skill is for, and how it is done.")],
    name: Annotated[str | None, typer.Option("--name", help="Its name (default: made from the text).")] = None,
    capability: Annotated[
        list[str] | None,
        typer.Option("--capability", help="What it may use; repeatable (default: suggested from the text)."),
    ] = None,
) -> Answer:
    """Create a skill that every bot of the home can have. The same call again changes nothing."""
    from perdure.app.builder.skills import open_skills

    settings = options.settings()
    made = (
        await open_skills(settings).create(
            {"description": description, "name": name, "capabilities": capability or None}
        )
    ).made()
    reasons = [f"  {each['name']}: {each['reason']}" for each in made["capabilities"]]
    return Answer(
        made,
        [
            f"Created the skill {made['name']}: {settings.home / made['path']}",
            *(["It may use:", *reasons] if reasons else ["It uses nothing beyond talking."]),
            f"Edit it: {exact(options, 'skill', 'edit', made['name'])}",
        ],
    )


async def edit(
    options: Options,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A skill of this home.")],
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Take this text instead of opening an editor.")
    ] = None,
) -> Answer:
    """Edit a skill in $VISUAL or $EDITOR, or from a file; the text is validated before it replaces the old one."""
    from perdure.app.builder.skills import open_skills
    from perdure.bots.documents import MAX_BYTES, decoded

    skills = open_skills(options.settings())
    before = await skills.text(name)
    text = decoded(read_file(file, MAX_BYTES), str(file)) if file is not None else _edited(options, before, name)
    if text == before:
        return Answer({"name": name, "changed": False}, [f"The skill {name} was not changed."])
    found = await skills.edit(name, text, seen=before)
    return Answer({**found.whole(), "changed": True}, [f"The skill {name} was changed; bots that have it keep theirs."])


def _edited(options: Options, text: str, name: str) -> str:
    """Let the person edit a text.

    Raises: Invalid when there is no terminal, or the editor fails.
    """
    if options.no_input or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Invalid(f"There is no terminal to edit on. Give the new text: perdure skill edit {name} --file FILE.")
    try:
        edited = click.edit(text, extension=".md", require_save=False)
    except click.ClickException as error:
        raise Invalid(f"The editor failed: {error.message}. Set $EDITOR, or use --file FILE.") from None
    return text if edited is None else edited
