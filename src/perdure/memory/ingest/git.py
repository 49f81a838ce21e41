"""Reads commits from git. Neither the name of a commit nor the repository can make git run another program."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure.errors import Invalid, NotFound, PerdureError, Unavailable

_WAIT_S = 60.0
_SAFE = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false"),
    *("-c", "protocol.allow=never", "--no-pager", "--literal-pathspecs"),
)
"""A repository can configure programs that git runs. Reading needs none of them, so all are turned off."""
_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C.UTF-8"}
_REPOSITORY_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE")
_OWNER_AND_NAME = re.compile(r"(?:://[^/]+/|[^/:]:)/?((?:[\w.-]+/)+[\w.-]+?)(?:\.git)?/?$")
"""The path of a repository URL; groups may be nested."""
_COMMIT_ID = re.compile(r"[0-9a-fA-F]{4,64}")
UNSHALLOW = "Fetch the history: `git fetch --unshallow`, or `fetch-depth: 0` (GitHub), `GIT_DEPTH: 0` (GitLab)."


@dataclass(frozen=True)
class Repository:
    """A repository, which is only read; `folder` is in it (default: the current folder)."""

    folder: Path | None = None

    def commit(self, name: str) -> str:
        """Return the full id of a commit, given an id or a prefix of one, a branch, a tag or HEAD.

        Raises: Invalid when that cannot be a name; NotFound when there is no such commit, or no repository.
        """
        if not name.strip() or name.startswith("-") or any(char.isspace() or not char.isprintable() for char in name):
            raise Invalid(f"{name!r} is not a commit: give an id, a branch or a tag.")
        try:
            output = self._ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        except NotFound as error:
            self._ask("rev-parse", "--git-dir")  # raises the better error if there is no repository
            reason = f" This is a shallow clone, which may lack it. {UNSHALLOW}" if self.is_shallow() else ""
            raise NotFound(f"There is no commit {name!r} in this repository.{reason}") from error
        return output.decode("ascii", "replace").strip()

    def commit_or_id(self, text: str) -> str:
        """Return the full id of a commit of this repository; an id that it does not have is returned unchanged.

        Raises: what `commit` raises, for a text that is not an id.
        """
        try:
            return self.commit(text)
        except (NotFound, Unavailable):
            if _COMMIT_ID.fullmatch(text):
                return text
            raise

    def changed_paths(self, commit: str) -> list[str]:
        """Return the paths that a commit changed; for a merge, those that it brought in.

        Raises: NotFound, also for the oldest commit of a shallow clone, which would seem to have made every file;
        what `commit` raises.
        """
        sha = self.commit(commit)
        if sha in self._shallow_commits():
            raise NotFound(
                f"Git cannot list what {sha[:12]} changed: this is a shallow clone, which lacks the commit before it."
                f" {UNSHALLOW}"
            )
        options = ("--max-count=1", "--format=", "--name-only", "-m", "--first-parent", "--no-renames", "--no-ext-diff")
        listed = self._ask("log", "-z", *options, "--end-of-options", sha, "--")
        return [os.fsdecode(path).encode(errors="replace").decode() for path in listed.split(b"\0") if path]

    def log(self, *options: str) -> list[str]:
        """Return the output of `git log`, one text for each commit.

        Raises: NotFound
        """
        listed = self._ask("log", "-z", "--no-color", "--no-notes", "--encoding=UTF-8", *options, "--")
        return [text for text in listed.decode(errors="replace").split("\0") if text.strip()]

    def root(self) -> Path:
        """Return the top folder of the repository.

        Raises: NotFound when there is no repository.
        """
        return Path(os.fsdecode(self._ask("rev-parse", "--show-toplevel").removesuffix(b"\n")))

    def is_shallow(self) -> bool:
        """Return whether this is a shallow clone; False without a repository."""
        try:
            return self._ask("rev-parse", "--is-shallow-repository").strip() == b"true"
        except PerdureError:
            return False

    def _shallow_commits(self) -> set[str]:
        """Return the commits whose parents a shallow clone lacks."""
        if not self.is_shallow():
            return set()
        path = Path(os.fsdecode(self._ask("rev-parse", "--git-path", "shallow").removesuffix(b"\n")))
        try:
            return set(((self.folder or Path.cwd()) / path).read_text().split())
        except OSError:
            return set()

    def address(self) -> str:
        """Return the URL of the remote `origin`; an empty text when there is none."""
        try:
            return self._ask("config", "--get", "remote.origin.url").decode(errors="replace").strip()
        except PerdureError:
            return ""

    def name(self) -> str | None:
        """Return `owner/name` from the URL of the remote `origin`, if there is one."""
        address = self.address()
        match = _OWNER_AND_NAME.search(address) if "://" in address or "@" in address else None
        return match.group(1) if match else None

    def _ask(self, *words: str) -> bytes:
        """Run git to its end.

        Raises: NotFound when it fails; Unavailable when it cannot be run, or takes too long.
        """
        environment = {**os.environ, **_QUIET}
        if self.folder is not None:  # the environment of a hook names another repository
            environment = {key: value for key, value in environment.items() if key not in _REPOSITORY_VARIABLES}
        try:
            done = subprocess.run(
                ["git", *_SAFE, *self._where, *words],  # noqa: S607 (the git that the person has)
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=_WAIT_S,
            )
        except subprocess.CalledProcessError as error:
            raise NotFound(f"Git failed: {_first_line(error.stderr) or f'exit {error.returncode}'}") from error
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"Git did not answer within {_WAIT_S:.0f} s.") from error
        except OSError as error:
            raise Unavailable(
                f"Git cannot be run: {error.strerror}. Install it, or give the paths yourself."
            ) from error
        return done.stdout

    @property
    def _where(self) -> Sequence[str]:
        return [] if self.folder is None else ["-C", str(self.folder)]


def _first_line(output: bytes) -> str:
    return output.decode(errors="replace").strip().partition("\n")[0][:300]
