"""`perdure skill`: the skills that a bot can have."""

import os
from pathlib import Path
from typing import Annotated

import typer

from perdure.interfaces.cli.answer import Answer, Table
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.files import read_file


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, "list")(list_skills)
    command(app, "ls")(list_skills)
    for fn in (show, validate):
        command(app, fn.__name__)(fn)


async def list_skills(options: Options) -> Answer:
    """List the skills that a bot can have: those that are built in, then those that were made here."""
    from perdure.app.skills import open_skills

    skills = [skill.wire() for skill in await open_skills(options.settings()).list()]
    rows = [[skill["name"], skill["origin"], skill["description"]] for skill in skills]
    return Answer({"skills": skills}, [Table(["skill", "origin", "what it does"], rows, whole=["skill", "origin"])])


async def show(
    options: Options,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The skill.")],
) -> Answer:
    """Show what a skill tells a bot."""
    from perdure.app.skills import open_skills

    found = await open_skills(options.settings()).get(name)
    skill = found.skill
    return Answer(found.whole(), [f"{skill.name}: {skill.description}", "", skill.instructions])


async def validate(
    options: Options,  # noqa: ARG001 (as every command)
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A SKILL.md, or the folder that it lies in.")],
) -> Answer:
    """See whether a file is a skill in the Agent Skills format."""
    from perdure.bots.documents import MAX_BYTES, decoded
    from perdure.bots.skills import SKILL_FILE, parse_skill

    path = file / SKILL_FILE if file.is_dir() else file
    text = decoded(read_file(path, MAX_BYTES), str(path))
    folder = Path(os.path.abspath(path)).parent.name if path.name == SKILL_FILE else None
    skill = parse_skill(text, str(path), folder=folder)
    return Answer({"name": skill.name, "description": skill.description}, [f"{path} is the skill {skill.name}."])
