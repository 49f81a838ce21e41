"""`perdure memory query | related | search | show`."""

from typing import Annotated

import typer

from perdure.app.memory import open_memory
from perdure.errors import Invalid
from perdure.interfaces.cli.answer import Answer, to_json
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.memory.inputs import listed_in
from perdure.interfaces.cli.memory.records import described, told
from perdure.memory.checkout import in_repository
from perdure.memory.normalise import paths_inside
from perdure.memory.record import Plain

Repo = Annotated[str | None, typer.Option("--repo", metavar="REPO", help="Nothing of other repositories.")]
Fingerprint = Annotated[
    str | None, typer.Option("--fingerprint", metavar="F", help="What is equal for the same cause.")
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, max=20, help="At most so many, instead of memory.max_matches."),
]
Budget = Annotated[
    float, typer.Option("--budget-ms", metavar="MS", min=1.0, help="Give what is there after so many milliseconds.")
]
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
MorePaths = Annotated[list[str] | None, typer.Argument(metavar="PATH", help="More paths.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for fn in (query, related, search, show):
        command(app, fn.__name__)(fn)


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
        from perdure.memory.git import Repository

        repository = Repository()
        sha = repository.commit(sha)
        listed += paths_inside(repository.changed_paths(sha))
    async with open_memory(options.settings()) as memory:
        found = await memory.related(
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
    budget_ms: Budget = 50.0,
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
    async with open_memory(options.settings()) as memory:
        found = await memory.related(
            paths=paths,
            fingerprint=fingerprint,
            text=text,
            repo=repo,
            sha=sha,
            pr_number=pr,
            limit=limit,
            budget_ms=budget_ms,
        )
    if not markdown and apply is None:
        return _answer(found)
    from perdure.interfaces.cli.memory.sections import with_section

    return with_section(options, found, apply)


async def search(
    options: Options,
    *,
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="Words; none of them is search syntax.")],
    repo: Repo = None,
    kind: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only records of this type.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=100, help="At most so many.")] = 10,
    budget_ms: Budget = 50.0,
) -> Answer:
    """Find records by their words, the best first."""
    async with open_memory(options.settings()) as memory:
        found = await memory.search(" ".join(words), limit=limit, repo=repo, type=kind, budget_ms=budget_ms)
    return _answer(found)


async def show(
    options: Options,
    *,
    record: Annotated[
        str, typer.Argument(metavar="ID", help="The record's id, or a unique prefix of it (at least six characters).")
    ],
) -> Answer:
    """Show a record with all that it holds."""
    async with open_memory(options.settings()) as memory:
        found = await memory.get(record)
    return Answer(found, [*described(found), to_json(found)])


def _answer(found: Plain) -> Answer:
    is_off = bool(found.get("disabled"))
    return Answer(found, told(found["matches"], truncated=found["truncated"], disabled=is_off))
