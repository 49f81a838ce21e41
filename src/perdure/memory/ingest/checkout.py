"""Resolves paths that people type, relative to the current folder or absolute, to paths in their repository."""

import os
from pathlib import Path

from perdure.errors import Invalid


def repository_root(path: Path) -> Path | None:
    """Return the nearest git checkout that is, or contains, a path.

    Git is not asked: it may be missing, and refuses a repository of another owner, as the containers of a CI have it.
    """
    return next((folder for folder in (path, *path.parents) if os.path.lexists(folder / ".git")), None)


def path_in_repository(text: str, folder: Path | None = None) -> str:
    """Return a path relative to its repository, given one that is absolute or relative to a folder.

    Without a repository, a relative path below the folder is returned unchanged.

    Raises: Invalid when it is empty, is in no repository, or is a whole repository.
    """
    path_text = text.strip().replace("\\", "/")
    if not path_text:
        raise Invalid("A path is empty. Name a file or a folder in a repository.")
    here = Path.cwd() if folder is None else folder
    path = Path(os.path.normpath(here / path_text))
    root = repository_root(path)
    if root is None and not Path(path_text).is_absolute() and path.is_relative_to(here):
        root = here
    if root is None:
        raise Invalid(f"The path {text!r} is not in a git repository: name a path in one.")
    relative = _within(path, root)
    if relative == ".":
        raise Invalid(f"The path {text!r} is a whole repository. Name a file or a folder in it.")
    return relative


def is_shallow(folder: Path | None = None) -> bool:
    """Return whether the repository of a folder (default: the current one) is a shallow clone."""
    root = repository_root(Path.cwd() if folder is None else folder)
    return root is not None and (root / ".git" / "shallow").is_file()


def _within(path: Path, root: Path) -> str:
    """Return a path as git knows it: a folder of the repository that is a symbolic link stands for its target."""
    real = Path(os.path.realpath(path.parent)) / path.name
    real_root = Path(os.path.realpath(root))
    if path != root and real.is_relative_to(real_root):
        return real.relative_to(real_root).as_posix()
    return path.relative_to(root).as_posix()
