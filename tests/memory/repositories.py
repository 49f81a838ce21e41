"""Git repositories, made for a test."""

import os
import subprocess
from pathlib import Path

import pytest


class GitRepository:
    """A repository in a folder, and what can be committed to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        """Run git in it, with nothing of the user's configuration."""
        named = {f"GIT_{who}_{what}": "ann" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment = {**os.environ, **named, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, message: str, **files: str) -> str:
        """Write files, `__` in a name being a slash and `_` a dot, commit all, and return the id of the commit."""
        for name, text in files.items():
            path = self.folder / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    """An empty repository."""
    return GitRepository(tmp_path / "repository")
