"""`perdure memory ingest`: what other tools have written becomes records."""

from pathlib import Path
from typing import Annotated

import typer

from perdure.app import open_home
from perdure.errors import Invalid, PerdureError
from perdure.interfaces.cli.command import Options, command, group
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.memory.inputs import moment_given
from perdure.interfaces.cli.remote.opened import records_of
from perdure.memory.ingest.report import Found
from perdure.memory.record import JsonObject

Repo = Annotated[str | None, typer.Option("--repo", metavar="REPO", help="owner/name (default: that of origin).")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit 1 when something could not be used.")]
_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    inner = group("Take in what other tools have written; what is there already is not added again.")
    for fn in (revert, junit):
        command(inner, fn.__name__, server=True)(fn)
    command(inner, "goals", server="It reads the histories of goals in a home: run it where the home is.")(goals)
    app.add_typer(inner, name="ingest")


async def revert(
    options: Options,
    *,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder in the repository.")] = Path(),
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="WHEN", help="No commit before: 30d, 2026-11-15; memory.retention_days when left out."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="Maximum number of entries.")
    ] = 200,
    repo: Repo = None,
    strict: Strict = False,
) -> Answer:
    """Take in the reverts of a git history, with the paths of what they reverted."""
    from perdure.memory.ingest.revert import reverts

    async with records_of(options) as memory:
        text = f"{(await memory.reader.status())['retention_days']}d" if since is None else since
        moment = int(moment_given(text, "--since").timestamp())
        report = await memory.writer.ingest(lambda: reverts(folder, since_s=moment, limit=limit, repo=repo))
    return _answer(report, strict=strict)


async def junit(  # noqa: PLR0913 (each is an option of the command)
    options: Options,
    *,
    reports: Annotated[list[Path], typer.Argument(metavar="REPORT", help="XML files, as test runners write them.")],
    root: Annotated[
        Path, typer.Option("--root", metavar="FOLDER", help="The repository that the tests ran in.")
    ] = Path(),
    repo: Repo = None,
    sha: Annotated[str | None, typer.Option("--sha", metavar="SHA", help="The commit that was tested.")] = None,
    pr: Annotated[int | None, typer.Option("--pr", metavar="N", min=0, help="The pull request.")] = None,
    strict: Strict = False,
) -> Answer:
    """Take in test reports: the tests that failed together become one record, by the paths they are in."""
    from perdure.memory.ingest.git import Repository
    from perdure.memory.ingest.junit import junit as read

    if not root.is_dir():
        raise Invalid(f"--root is {str(root)!r}, which is not a folder.")
    repo = repo or Repository(root).name()

    def find() -> Found:
        found = Found()
        for path in reports:
            found.extend(read(path, root=root.absolute(), repo=repo, sha=sha, pr=pr))
        return found

    async with records_of(options) as memory:
        report = await memory.writer.ingest(find)
    return _answer(report, strict=strict)


async def goals(
    options: Options,
    *,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Goals, by their ids; the newest that have ended if none.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only goals that did not end well.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1000, help="Maximum number of entries.")
    ] = 100,
    strict: Strict = False,
) -> Answer:
    """Take in how goals ended. Alone among these commands, it opens the database."""
    from perdure.app.memory.goal_ingest import ingest_goals

    settings = options.settings()
    _ = settings.memory
    async with open_home(settings, debug=options.verbose) as p:
        report = await ingest_goals(p.goals, p.memory, ids or [], limit=limit, only_failed=failed)
    return _answer(report, strict=strict)


def _answer(report: JsonObject, *, strict: bool) -> Answer:
    errors = report["errors"]
    forgotten = f" {report['forgotten']} forgotten," if report["forgotten"] else ""
    counts = f"Added {report['added']}, {report['duplicates']} there already,{forgotten} {report['skipped']} skipped."
    more = [f"… and {len(errors) - _SHOWN} more."] if len(errors) > _SHOWN else []
    code = PerdureError.exit_code if strict and errors else 0
    return Answer(report, [counts, *errors[:_SHOWN], *more], code)
