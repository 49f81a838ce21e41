"""`perdure memory query | related | search | list | show`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer, to_json
from perdure.interfaces.cli.memory.inputs import listed_in, moment_given
from perdure.interfaces.cli.memory.records import described, told
from perdure.interfaces.cli.remote.opened import records_of
from perdure.memory.ingest.checkout import in_repository
from perdure.memory.normalise import paths_inside
from perdure.memory.query.further import MOST_SHOWN, further_matches
from perdure.memory.query.parameters import RecordFilters

Repo = Annotated[str | None, typer.Option("--repo", metavar="REPO", help="Nothing of other repositories.")]
Fingerprint = Annotated[
    str | None, typer.Option("--fingerprint", metavar="F", help="What is equal for the same cause.")
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, max=MOST_SHOWN, help="Maximum number (default: memory.max_matches)."),
]
Budget = Annotated[
    float,
    typer.Option("--budget-ms", metavar="MS", min=1.0, help="Time limit; what was found by then is returned."),
]
SectionBudget = Annotated[
    float | None,
    typer.Option(
        "--budget-ms",
        metavar="MS",
        min=1.0,
        help="Time limit; what was found by then is returned. Default: 50, and 2000 with --markdown or --apply.",
    ),
]
_BUDGET_MS = 50.0
_SECTION_BUDGET_MS = 2_000.0
"""A section of a pull request is read by people for days: it waits for a slow machine."""
PathsFrom = Annotated[
    str | None,
    typer.Option(
        "--paths-from",
        metavar="FILE",
        help="Also paths as `git diff --name-only` lists them, from the root; `-`: standard input.",
    ),
]
Apply = Annotated[
    str | None,
    typer.Option(
        "--apply",
        metavar="FILE",
        help="Put that section into a file, in place of an older one; `-`: from standard input to standard output.",
    ),
]
Kind = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only records of this type.")]
Source = Annotated[str | None, typer.Option("--source", metavar="TEXT", help="Only records of this source.")]
Since = Annotated[
    str | None, typer.Option("--since", metavar="WHEN", help="Only records from then on: 12h, 30d, 2026-11-15.")
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="WHEN", help="Only records before then: 12h, 30d, 2026-11-15.")
]
MorePaths = Annotated[list[str] | None, typer.Argument(metavar="PATH", help="More paths.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for fn in (query, related, search, show):
        command(app, fn.__name__, server=True)(fn)
    for name in ("list", "ls"):
        command(app, name, server=True)(list_)


async def query(  # noqa: PLR0913 (each is a way to ask)
    options: Options,
    *,
    more_paths: MorePaths = None,
    pr: Annotated[int | None, typer.Option("--pr", metavar="N", min=0, help="A pull request.")] = None,
    sha: Annotated[
        str | None,
        typer.Option("--sha", metavar="COMMIT", help="A commit here: its id, and the paths that git says it changed."),
    ] = None,
    paths: Annotated[
        list[str] | None, typer.Option("--paths", metavar="PATH", help="Paths in the repository, one or more.")
    ] = None,
    fingerprint: Fingerprint = None,
    repo: Repo = None,
    limit: Limit = None,
) -> Answer:
    """Find the history of a pull request, a commit, some paths or a fingerprint."""
    if pr is not None and sha is not None:
        raise Invalid("Give --pr or --sha, not both: each names one change.")
    listed = [in_repository(each) for each in (*(paths or []), *(more_paths or []))]
    if pr is None and sha is None and not listed and fingerprint is None:
        raise Invalid("Say what to look for: --pr N, --sha COMMIT, --paths PATH … or --fingerprint F.")
    if sha is not None:
        from perdure.memory.ingest.git import Repository

        repository = Repository()
        sha = repository.commit(sha)
        listed += paths_inside(repository.changed_paths(sha))
    async with records_of(options) as memory:
        found = await memory.reader.related(
            paths=listed, fingerprint=fingerprint, repo=repo, sha=sha, pr_number=pr, limit=limit
        )
    return _answer(found)


async def related(  # noqa: PLR0913 (each is a way to ask)
    options: Options,
    *,
    more_paths: MorePaths = None,
    path: Annotated[
        list[str] | None,
        typer.Option("--path", metavar="PATH", help="A path in a repository, relative or absolute; may be repeated."),
    ] = None,
    paths_from: PathsFrom = None,
    fingerprint: Fingerprint = None,
    text: Annotated[str | None, typer.Option("--text", metavar="TEXT", help="Words that it has to do with.")] = None,
    repo: Repo = None,
    sha: Annotated[str | None, typer.Option("--sha", metavar="SHA", help="A commit; git is not asked.")] = None,
    pr: Annotated[int | None, typer.Option("--pr", metavar="N", min=0, help="A pull request.")] = None,
    limit: Limit = None,
    budget_ms: SectionBudget = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print it as a section for a pull request.")] = False,
    apply: Apply = None,
) -> Answer:
    """Find what has to do with paths, a fingerprint, words, a commit or a pull request, and say why."""
    if paths_from == apply == "-":
        raise Invalid("Only one of --paths-from and --apply can be standard input.")
    paths = [
        *map(in_repository, (*(path or []), *(more_paths or []))),
        *(paths_inside(listed_in(paths_from)) if paths_from is not None else []),
    ]
    if paths_from is None and not paths and all(each is None for each in (fingerprint, text, sha, pr)):
        raise Invalid("Say what it is related to: --path PATH, --fingerprint F, --text TEXT, --sha SHA or --pr N.")
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


async def search(  # noqa: PLR0913 (each is a way to ask)
    options: Options,
    *,
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="Words; none of them is search syntax.")],
    repo: Repo = None,
    kind: Kind = None,
    source: Source = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=100, help="Maximum number of records.")] = 10,
    budget_ms: Budget = _BUDGET_MS,
) -> Answer:
    """Find records by their words, the best first: by stem, and any part in Chinese, Japanese and Korean."""
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
) -> Answer:
    """List the newest records that match all filters. Superseded ones are left out."""
    filters = _filters(kind, source, repo, since, until)
    async with records_of(options) as memory:
        found = await memory.reader.list(limit=limit, **filters)
    said = [line for record in found["records"] for line in described(record)]
    more = ["There are more; --limit shows them."] if found["has_more"] else []
    none = "No record matches." if any(filters.values()) else "The memory is empty."
    return Answer(found, [*(said or [none]), *more])


def _filters(
    kind: str | None, source: str | None, repo: str | None, since: str | None, until: str | None
) -> RecordFilters:
    given: RecordFilters = {"type": kind, "source": source, "repo": repo}
    if since is not None:
        given["since"] = moment_given(since, "--since")
    if until is not None:
        given["until"] = moment_given(until, "--until")
    return given


async def show(
    options: Options,
    *,
    record: Annotated[
        str, typer.Argument(metavar="ID", help="The record's id, or a unique prefix of it (at least six characters).")
    ],
) -> Answer:
    """Show a record with all that it holds."""
    async with records_of(options) as memory:
        found = await memory.reader.get(record)
    return Answer(found, [*described(found), to_json(found)])


def _answer(found: Mapping[str, Any]) -> Answer:
    is_off = bool(found.get("disabled"))
    said = told(found["matches"], truncated=found["truncated"], disabled=is_off)
    further = further_matches(len(found["matches"]), found.get("more"), "--limit {limit}")
    return Answer(found, [*said, *([further] if further else [])])
