"""Commands that can be pasted into a shell."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.interfaces.cli.output.terminal import one_line

if TYPE_CHECKING:
    from perdure.interfaces.cli.command import Options

RUN_FLOWS = frozenset(
    [("run",), ("serve",)]
    + [("goal", verb) for verb in ("resume", "retry", "fork", "approve", "deny", "answer", "decide", "signal")]
)
"""The commands that have the option --import."""
AT_SERVER = ("new", "chat", "run", "goal", "memory", "bot", "draft", "choice")
"""The commands and groups that have the option --url."""


def exact(options: "Options", *words: str) -> str:
    """Return a command that can be pasted, for the same home or server and with the same modules of flows."""
    return one_line(shlex.join([*_program(), *_as_given(options, words)]))


def pasteable(options: "Options", command: str) -> str:
    """Return a command of Perdure with the options of this call; any other command unchanged."""
    program, *words = shlex.split(command)
    return shlex.join([program, *_as_given(options, words)]) if program == "perdure" else command


def _as_given(options: "Options", words: Sequence[str]) -> list[str]:
    """Return the words of a command with the applicable options of this call."""
    home = ["--home", options.home] if options.home is not None else []
    has_url = options.url is not None and words[0] in AT_SERVER
    url = ["--url", str(options.url)] if has_url else []
    has_import = tuple(words[:1]) in RUN_FLOWS or tuple(words[:2]) in RUN_FLOWS
    imports = [word for module in options.imports for word in ("--import", module)] if has_import else []
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], *imports, *home, *url, *words[at:]]


def _program() -> list[str]:
    """Return the words that start this program: its name if it is on the PATH, else the typed path."""
    typed = Path(sys.argv[0])
    if typed.name == "__main__.py" and typed.parent.name == "perdure":
        return [sys.executable, "-m", "perdure"]
    found = shutil.which("perdure")
    is_found = found is not None and typed.exists() and typed.samefile(found)
    return ["perdure"] if is_found or typed.name != "perdure" else [sys.argv[0]]
