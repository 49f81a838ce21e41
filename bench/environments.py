"""Environments for the others, each its own; they are kept in a folder outside of the project and used again."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PLACE = "PERDURE_BENCH_CACHE"
"""The environment variable that names another folder for them."""
_INSTALL_S = 300


class NotInstalled(Exception):
    """Some packages cannot be installed here, and why."""


def cache() -> Path:
    """The folder for what is used again."""
    name = os.environ.get(PLACE)
    folder = Path(name) if name else Path(tempfile.gettempdir()) / f"perdure-bench-cache-{os.getuid()}"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def installed(name: str, packages: Sequence[str]) -> Path:
    """Return the Python of an environment with some packages, which is made when it is not there.

    Raises: NotInstalled
    """
    folder = _folder(name, packages)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    _make(folder, packages, [sys.executable, "-m", "venv", str(folder)], [*pip, *packages])
    return python


def installed_for_node(name: str, packages: Sequence[str]) -> Path:
    """Return the folder with the modules of some npm packages, which is made when it is not there.

    Raises: NotInstalled
    """
    folder = _folder(name, packages)
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)]
    _make(folder, packages, [*npm, *packages])
    return folder / "node_modules"


def _folder(name: str, packages: Sequence[str]) -> Path:
    wanted = hashlib.sha256("\n".join([sys.version, *packages]).encode()).hexdigest()[:8]
    return cache() / f"{name}-{wanted}"


def _make(folder: Path, packages: Sequence[str], *commands: Sequence[str]) -> None:
    if (folder / "complete").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        for command in commands:
            subprocess.run(command, check=True, capture_output=True, timeout=_INSTALL_S)
    except (subprocess.SubprocessError, OSError) as error:
        said = getattr(error, "stderr", b"") or b""
        print(f"{' '.join(packages)}: {error} {said.decode(errors='replace')[-300:]}", file=sys.stderr)
        raise NotInstalled("could not be installed here") from error
    (folder / "complete").touch()
