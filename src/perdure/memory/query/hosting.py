"""URLs of commits and pull requests at the host of a repository."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from perdure.memory.ingest.git import Repository

_REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)+", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_STYLES = {
    "gitlab": ("/-/commit/", "/-/merge_requests/"),
    "bitbucket": ("/commits/", "/pull-requests/"),
    "gitea": ("/commit/", "/pulls/"),
    "forgejo": ("/commit/", "/pulls/"),
    "codeberg": ("/commit/", "/pulls/"),
}
_USUAL = ("/commit/", "/pull/")
_SSH = re.compile(r"(?:ssh://)?(?:[\w.-]+@)?([\w.-]+)(?::\d+)?[:/]", re.ASCII)


@dataclass(frozen=True)
class Hosting:
    """A server that hosts repositories; `base` is its URL without the path of a repository."""

    base: str
    commits: str = _USUAL[0]
    pull_requests: str = _USUAL[1]

    @property
    def request_word(self) -> str:
        """The host's name for a pull request."""
        return "merge request" if "merge_requests" in self.pull_requests else "pull request"

    def commit_url(self, repo: object, sha: object) -> str | None:
        """Return the URL of a commit; None when repository or commit is not valid."""
        is_known = isinstance(sha, str) and _COMMIT.fullmatch(sha) is not None
        return f"{self.base}/{repo}{self.commits}{sha}" if is_known and _is_repository(repo) else None

    def pull_request_url(self, repo: object, number: object) -> str | None:
        """Return the URL of a pull request or merge request; None when repository or number is not valid."""
        is_known = type(number) is int and number > 0
        return f"{self.base}/{repo}{self.pull_requests}{number}" if is_known and _is_repository(repo) else None


def hosting_here(environment: Mapping[str, str] = os.environ) -> Hosting | None:
    """Return the host from the environment of the CI, else from the remote `origin`; None without both."""
    if environment.get("GITHUB_ACTIONS") and (address := environment.get("GITHUB_SERVER_URL")):
        return _hosting(address, "github")
    if environment.get("GITLAB_CI") and (address := environment.get("CI_SERVER_URL")):
        return _hosting(address, "gitlab")
    address = Repository().address()
    if "://" in address and not address.startswith("ssh://"):
        return _hosting(address, address)
    match = _SSH.match(address)
    return _hosting(f"https://{match[1]}", match[1]) if match and ("@" in address or "://" in address) else None


def _hosting(address: str, kind: str) -> Hosting | None:
    """Return the host of a URL without user and password, which may hold a token."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    style = next((style for name, style in _STYLES.items() if name in kind.lower()), _USUAL)
    return Hosting(f"{parts.scheme}://{parts.hostname}{port}", *style)


def _is_repository(repo: object) -> bool:
    return isinstance(repo, str) and _REPOSITORY.fullmatch(repo) is not None
