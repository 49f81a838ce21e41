"""`perdure skill`: the skills that a bot can have."""

from pathlib import Path
from typing import Annotated

import typer

from perdure.bots.skills import builtin_skill, builtin_skills, parse_skill
from perdure.errors import Denied, NotFound
from perdure.interfaces.cli.answer import Answer, Table
from perdure.interfaces.cli.command import Options, command

_LARGEST = 1 << 20


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, "list")(list_skills)
    command(app, "ls")(list_skills)
    for fn in (show, validate):
        command(app, fn.__name__)(fn)


async def list_skills(options: Options) -> Answer:  # noqa: ARG001 (as every command)
    """List the skills that are built in."""
    skills = [{"name": skill.name, "description": skill.description} for skill in builtin_skills()]
    rows = [[skill["name"], skill["description"]] for skill in skills]
    return Answer({"skills": skills}, [Table(["skill", "what it does"], rows, whole=["skill"])])


async def show(
    options: Options,  # noqa: ARG001 (as every command)
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The skill.")],
) -> Answer:
    """Show what a skill tells a bot."""
    skill = builtin_skill(name)
    data = {"name": skill.name, "description": skill.description, "instructions": skill.instructions}
    return Answer(data, [f"{skill.name}: {skill.description}", "", skill.instructions])


async def validate(
    options: Options,  # noqa: ARG001 (as every command)
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A SKILL.md, or the folder that it lies in.")],
) -> Answer:
    """See whether a file is a skill in the Agent Skills format."""
    path = file / "SKILL.md" if file.is_dir() else file
    try:
        with path.open("rb") as opened:
            text = opened.read(_LARGEST + 1)[:_LARGEST].decode("utf-8", "replace")
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.") from None
    except OSError as error:
        raise Denied(f"{path} cannot be read: {error.strerror}.") from error
    skill = parse_skill(text, str(path))
    return Answer({"name": skill.name, "description": skill.description}, [f"{path} is the skill {skill.name}."])
