"""`perdure memory ingest`: stores reports of other tools as records."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from perdure.app import open_home
from perdure.errors import Invalid, PerdureError
from perdure.interfaces.cli.command import Options, command, group
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.memory.duplicates import duplicates
from perdure.interfaces.cli.memory.inputs import read_moment
from perdure.interfaces.cli.remote.opened import records_of

Repo = Annotated[
    str | None, typer.Option("--repo", metavar="REPO", help="owner/name (default: from the remote `origin`).")
]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 if part of the input could not be used.")]
_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    inner = group("Store reports of other tools as records; a report is stored only once.")
    for fn in (revert, junit):
        command(inner, fn.__name__, server=True)(fn)
    command(inner, "goals", server="It reads goal histories from a home: run it on the machine of the home.")(goals)
    app.add_typer(inner, name="ingest")


async def revert(
    options: Options,
    *,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The repository, or a folder inside it.")] = Path(),
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="WHEN", help="Ignore commits before: 30d, 2026-11-15 (default: memory.retention_days)."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="Read at most this number of reverts.")
    ] = 200,
    repo: Repo = None,
    strict: Strict = False,
) -> CommandResult:
    """Store the reverts of a git history as records, with the paths of the reverted commits."""
    from perdure.app.memory.sources import reverts

    async with records_of(options) as memory:
        text = f"{(await memory.reader.status())['retention_days']}d" if since is None else since
        moment = int(read_moment(text, "--since").timestamp())
        report = await memory.writer.ingest(lambda: reverts(folder, since_s=moment, limit=limit, repo=repo))
    return _answer(report, strict=strict)


async def junit(  # noqa: PLR0913 (each is an option of the command)
    options: Options,
    *,
    reports: Annotated[list[Path], typer.Argument(metavar="REPORT", help="JUnit XML files of a test runner.")],
    root: Annotated[
        Path, typer.Option("--root", metavar="FOLDER", help="The repository that the tests ran in.")
    ] = Path(),
    repo: Repo = None,
    sha: Annotated[
        str | None,
        typer.Option("--sha", metavar="COMMIT", help="The tested commit: an id, or a ref of this repository."),
    ] = None,
    pr: Annotated[int | None, typer.Option("--pr", metavar="N", min=0, help="The pull request.")] = None,
    strict: Strict = False,
) -> CommandResult:
    """Store failures of JUnit reports; tests that failed together become one record with their paths."""
    from perdure.app.memory.sources import read_reports

    if not root.is_dir():
        raise Invalid(f"--root must be a folder, got {str(root)!r}.")
    find = partial(read_reports, reports, root=root, repo=repo, sha=sha, pr=pr)
    async with records_of(options) as memory:
        report = await memory.writer.ingest(find)
    return _answer(report, strict=strict)


async def goals(
    options: Options,
    *,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Ids of goals (default: the newest finished goals).")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only goals that failed or were cancelled.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1000, help="Read at most this number of goals.")
    ] = 100,
    strict: Strict = False,
) -> CommandResult:
    """Store the outcomes of goals as records. Needs the database, which other commands of the memory do not."""
    from perdure.app.memory.goal_ingest import ingest_goals

    settings = options.settings()
    _ = settings.memory
    async with open_home(settings, debug=options.verbose) as p:
        report = await ingest_goals(p.goals, p.memory, ids or [], limit=limit, only_failed=failed)
    return _answer(report, strict=strict)


def _answer(report: Mapping[str, Any], *, strict: bool) -> CommandResult:
    errors = report["errors"]
    forgotten = f", {report['forgotten']} forgotten" if report["forgotten"] else ""
    not_added = f"{duplicates(report['duplicates'])}{forgotten}, {report['skipped']} skipped"
    counts = f"Added: {report['added']}. Not added: {not_added}."
    more = [f"… and {len(errors) - _SHOWN} more."] if len(errors) > _SHOWN else []
    code = PerdureError.exit_code if strict and errors else 0
    return CommandResult(report, [counts, *errors[:_SHOWN], *more], code)
