"""Commands that can be pasted as they stand."""

import shlex
import shutil
import sys
from pathlib import Path

from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.terminal import one_line


def exact(options: Options, *words: str) -> str:
    """Return a command that can be pasted as it stands, for the same home."""
    home = ["--home", options.home] if options.home is not None else []
    at = words.index("--") if "--" in words else len(words)
    return one_line(shlex.join([*_program(), *words[:at], *home, *words[at:]]))


def _program() -> list[str]:
    """Return what this program is started by: its name where that finds it, else the path that was typed."""
    typed = Path(sys.argv[0])
    if typed.name == "__main__.py" and typed.parent.name == "perdure":
        return [sys.executable, "-m", "perdure"]
    found = shutil.which("perdure")
    is_found = found is not None and typed.exists() and typed.samefile(found)
    return ["perdure"] if is_found or typed.name != "perdure" else [sys.argv[0]]
