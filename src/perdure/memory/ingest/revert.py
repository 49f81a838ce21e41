"""Reverts in the history of a git repository."""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perdure.errors import PerdureError
from perdure.memory.ingest.git import UNSHALLOW, Repository
from perdure.memory.ingest.report import MOST_PATHS, SourceRecords, identity, shortened
from perdure.memory.normalise import paths_inside
from perdure.memory.record import JsonObject

_COMMIT = re.compile(r"^\W*This reverts commit ([0-9a-f]{7,64})\b", re.MULTILINE | re.IGNORECASE)
_PULL_REQUEST = re.compile(r"^\W*Reverts (?:([\w.-]+/[\w.-]+))?#(\d{1,9})\b", re.MULTILINE | re.IGNORECASE)
_FORMAT = "%H%n%ct%n%s%n%b"


@dataclass(frozen=True)
class _Revert:
    sha: str
    seconds: int
    subject: str
    body: str
    commit: str | None
    repo: str | None
    pr_number: int | None


def reverts(folder: Path, *, since_s: int, limit: int, repo: str | None = None) -> SourceRecords:
    """Find the newest commits that revert another one, with the paths that were reverted."""
    repository = Repository(folder)
    collected = SourceRecords()
    try:
        texts = repository.log(
            *("--extended-regexp", "--regexp-ignore-case", f"--format={_FORMAT}"),
            *("--grep=This reverts commit [0-9a-f]{7,}", "--grep=Reverts [A-Za-z0-9_./-]*#[0-9]+"),
            *(f"--since=@{since_s} +0000", f"--max-count={limit}"),
        )
    except PerdureError as error:
        collected.skip(f"The history of {folder.absolute()} cannot be read. {error.detail}")
        return collected
    if repository.is_shallow():
        collected.errors.append(f"{folder} is a shallow clone: only its newest commits were read. {UNSHALLOW}")
    name = repo or repository.name()
    for text in texts:
        if (revert := _read(text)) is None:
            continue  # the phrase was in the middle of a sentence
        try:
            paths = paths_inside(_paths(repository, revert))
            if len(paths) > MOST_PATHS:
                left_out = (
                    f"{len(paths) - MOST_PATHS} of {len(paths)} paths left out; a record has at most {MOST_PATHS}."
                )
                collected.errors.append(f"{revert.sha[:12]}: {left_out}")
            collected.records.append(_record(revert, paths, name))
        except PerdureError as error:
            # It is not stored without its paths, because nothing would find it by them.
            collected.skip(f"{revert.sha[:12]}: skipped, because its paths cannot be read. {error.detail}")
    return collected


def _read(text: str) -> _Revert | None:
    sha, seconds, subject, *body = text.split("\n", 3)
    message = "".join(body)
    commit, request = _COMMIT.search(message), _PULL_REQUEST.search(message)
    if commit is None and request is None:
        return None
    reverted = commit.group(1).lower() if commit else None
    repo, pr_number = (request.group(1), int(request.group(2))) if request else (None, None)
    return _Revert(
        sha=sha,
        seconds=int(seconds),
        subject=subject,
        body=message,
        commit=reverted,
        repo=repo,
        pr_number=pr_number,
    )


def _paths(repository: Repository, revert: _Revert) -> list[str]:
    """Return the paths of the reverted commit; if that commit is missing, those of the revert.

    Raises: what `changed_paths` raises for the revert.
    """
    if revert.commit is not None:
        with suppress(PerdureError):
            return repository.changed_paths(revert.commit)
    return repository.changed_paths(revert.sha)


def _record(revert: _Revert, paths: list[str], repo: str | None) -> JsonObject:
    repo = repo or revert.repo
    reverted = {"reverted_sha": revert.commit, "reverted_pr": revert.pr_number, "paths": len(paths)}
    optional = {"repo": repo or None, "pr_number": revert.pr_number}
    return {
        "id": identity("revert", repo or "", revert.sha),
        "type": "revert",
        "timestamp": revert.seconds,
        "severity": "medium",
        "source": "git",
        "sha": revert.sha,
        "title": shortened(revert.subject, 300),
        "summary": shortened(revert.body.strip()),
        "paths": paths[:MOST_PATHS],
        "metadata": {key: value for key, value in reverted.items() if value is not None},
        **{key: value for key, value in optional.items() if value is not None},
    }
