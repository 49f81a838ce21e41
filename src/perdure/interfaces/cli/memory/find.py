"""`perdure memory query | related | search | list | show`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.app.memory.arguments import (
    MOST_SHOWN,
    commit_id,
    commit_with_paths,
    further_matches,
    paths_inside,
)
from perdure.app.memory.repositories import path_in_repository
from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult, to_json
from perdure.interfaces.cli.memory.inputs import read_moment, read_paths
from perdure.interfaces.cli.memory.records import match_lines, record_lines
from perdure.interfaces.cli.remote.opened import records_of

if TYPE_CHECKING:
    from perdure.app.wire.resources.parameters import RecordFilters

Repo = Annotated[
    str | None, typer.Option("--repo", metavar="REPO", help="Only records of this repository, or of none.")
]
Fingerprint = Annotated[
    str | None, typer.Option("--fingerprint", metavar="F", help="Stable identifier of a root cause.")
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, max=MOST_SHOWN, help="Maximum number (default: memory.max_matches)."),
]
Budget = Annotated[
    float,
    typer.Option("--budget-ms", metavar="MS", min=1.0, help="Time limit; returns the matches found by then."),
]
SectionBudget = Annotated[
    float | None,
    typer.Option(
        "--budget-ms",
        metavar="MS",
        min=1.0,
        help="Time limit; returns the matches found by then. Default: 50, and 2000 with --markdown or --apply.",
    ),
]
_BUDGET_MS = 50.0
_SECTION_BUDGET_MS = 2_000.0
"""Longer than for a query: people read the section of a pull request for days, so it should be complete."""
PathsFrom = Annotated[
    str | None,
    typer.Option(
        "--paths-from",
        metavar="FILE",
        help="A file with more paths, as printed by `git diff --name-only`, from the root; `-`: standard input.",
    ),
]
Apply = Annotated[
    str | None,
    typer.Option(
        "--apply",
        metavar="FILE",
        help="Put the section into this file, replacing an older one; `-`: read standard input, print the result.",
    ),
]
Words = Annotated[
    str | None,
    typer.Option(
        "--text",
        metavar="TEXT",
        help="Only records with all of these words, except very common ones.",
    ),
]
Kind = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only records of this type.")]
Source = Annotated[str | None, typer.Option("--source", metavar="TEXT", help="Only records of this source.")]
Since = Annotated[
    str | None, typer.Option("--since", metavar="WHEN", help="Only records since this time: 12h, 30d, 2026-11-15.")
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="WHEN", help="Only records before this time: 12h, 30d, 2026-11-15.")
]
Paths = Annotated[
    list[str] | None,
    typer.Option(
        "--path", "--paths", metavar="PATH", help="A path in a repository, relative or absolute; may be repeated."
    ),
]
MorePaths = Annotated[
    list[str] | None, typer.Argument(metavar="PATH", help="Paths, in addition to those of the options.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for fn in (query, related, search, show):
        command(app, fn.__name__, server=True)(fn)
    for name in ("list", "ls"):
        command(app, name, server=True)(list_)


async def query(  # noqa: PLR0913 (each is an option of the command)
    options: Options,
    *,
    more_paths: MorePaths = None,
    pr: Annotated[int | None, typer.Option("--pr", metavar="N", min=0, help="A pull request.")] = None,
    sha: Annotated[
        str | None,
        typer.Option(
            "--sha", metavar="COMMIT", help="A commit of this repository; its changed paths are matched, too."
        ),
    ] = None,
    paths: Paths = None,
    fingerprint: Fingerprint = None,
    repo: Repo = None,
    limit: Limit = None,
    budget_ms: Budget = _BUDGET_MS,
) -> CommandResult:
    """Find records about a change. Like `related`, but --sha also matches the paths that the commit changed."""
    if pr is not None and sha is not None:
        raise Invalid("Use --pr or --sha, not both: each names one change.")
    listed = [path_in_repository(each) for each in (*(paths or []), *(more_paths or []))]
    if pr is None and sha is None and not listed and fingerprint is None:
        raise Invalid("No search criterion. Use --pr N, --sha COMMIT, --paths PATH … or --fingerprint F.")
    if sha is not None:
        sha, changed = commit_with_paths(sha)
        listed += changed
    async with records_of(options) as memory:
        found = await memory.reader.related(
            paths=listed, fingerprint=fingerprint, repo=repo, sha=sha, pr_number=pr, limit=limit, budget_ms=budget_ms
        )
    return _answer(found)


async def related(  # noqa: PLR0913 (each is an option of the command)
    options: Options,
    *,
    more_paths: MorePaths = None,
    path: Paths = None,
    paths_from: PathsFrom = None,
    fingerprint: Fingerprint = None,
    text: Words = None,
    repo: Repo = None,
    sha: Annotated[
        str | None, typer.Option("--sha", metavar="COMMIT", help="A commit: an id, or a ref of this repository.")
    ] = None,
    pr: Annotated[int | None, typer.Option("--pr", metavar="N", min=0, help="A pull request.")] = None,
    limit: Limit = None,
    budget_ms: SectionBudget = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a section for a pull request.")] = False,
    apply: Apply = None,
) -> CommandResult:
    """Find records that share a path, fingerprint, commit or pull request; --text and --repo narrow the result."""
    if paths_from == apply == "-":
        raise Invalid("Only one of --paths-from and --apply can be standard input.")
    paths = [
        *map(path_in_repository, (*(path or []), *(more_paths or []))),
        *(paths_inside(read_paths(paths_from)) if paths_from is not None else []),
    ]
    if paths_from is None and not paths and all(each is None for each in (fingerprint, text, sha, pr)):
        raise Invalid("No search criterion. Use --path PATH, --fingerprint F, --text TEXT, --sha SHA or --pr N.")
    if sha is not None:
        sha = commit_id(sha)
    has_section = markdown or apply is not None
    default_ms = _SECTION_BUDGET_MS if has_section else _BUDGET_MS
    async with records_of(options) as memory:
        found = await memory.reader.related(
            paths=paths,
            fingerprint=fingerprint,
            text=text,
            repo=repo,
            sha=sha,
            pr_number=pr,
            limit=limit,
            budget_ms=default_ms if budget_ms is None else budget_ms,
        )
    if not has_section:
        return _answer(found)
    from perdure.interfaces.cli.memory.sections import with_section

    return with_section(options, found, apply)


async def search(  # noqa: PLR0913 (each is an option of the command)
    options: Options,
    *,
    words: Annotated[
        list[str], typer.Argument(metavar="WORD", help="Words to find; they are not interpreted as search syntax.")
    ],
    repo: Repo = None,
    kind: Kind = None,
    source: Source = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=100, help="Maximum number of records.")] = 10,
    budget_ms: Budget = _BUDGET_MS,
) -> CommandResult:
    """Find records by the words of their title and summary, best match first.

    Words match by stem; Chinese, Japanese and Korean words by any part.
    """
    filters = _filters(kind, source, repo, since, until)
    async with records_of(options) as memory:
        found = await memory.reader.search(" ".join(words), limit=limit, budget_ms=budget_ms, **filters)
    return _answer(found)


async def list_(  # noqa: PLR0913 (each is a filter)
    options: Options,
    *,
    kind: Kind = None,
    source: Source = None,
    repo: Repo = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="Maximum number.")] = 20,
) -> CommandResult:
    """List the newest records that match all filters, without superseded ones."""
    filters = _filters(kind, source, repo, since, until)
    async with records_of(options) as memory:
        found = await memory.reader.list(limit=limit, **filters)
    lines = [line for record in found["records"] for line in record_lines(record)]
    more = ["There are more; raise --limit to show them."] if found["has_more"] else []
    none = "No record matches." if any(filters.values()) else "The memory is empty."
    return CommandResult(found, [*(lines or [none]), *more])


def _filters(
    kind: str | None, source: str | None, repo: str | None, since: str | None, until: str | None
) -> "RecordFilters":
    filters: RecordFilters = {"type": kind, "source": source, "repo": repo}
    if since is not None:
        filters["since"] = read_moment(since, "--since")
    if until is not None:
        filters["until"] = read_moment(until, "--until")
    return filters


async def show(
    options: Options,
    *,
    record: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="The record's id, a unique prefix of it (at least six characters), or its key."
        ),
    ],
) -> CommandResult:
    """Show a record with all its fields."""
    async with records_of(options) as memory:
        found = await memory.reader.get(record)
    return CommandResult(found, [*record_lines(found), to_json(found)])


def _answer(found: Mapping[str, Any]) -> CommandResult:
    is_off = bool(found.get("disabled"))
    lines = match_lines(found["matches"], truncated=found["truncated"], disabled=is_off)
    further = further_matches(len(found["matches"]), found.get("more"), "--limit {limit}")
    return CommandResult(found, [*lines, *([further] if further else [])])
