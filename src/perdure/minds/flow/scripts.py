"""Flows that a script defines: their goals are resumed only by running that script again."""

import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from perdure.kernel.events import GoalBegun, MindSpec
from perdure.minds.flow.steps.tracebacks import shown

MAIN = "__main__:"
_OF_SCRIPT = ("script", "argv")
_LONGEST_ARGV = 4 * 1024
_SECRET = re.compile(
    r"--?(.*[-_])?(token|secret|password|passwd|pwd|passphrase|credentials?|authorization|(api|access|private|secret)[-_]?key)",
    re.IGNORECASE,
)
"""Options whose value is a secret."""
_PASSWORD_OF_URL = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]+@")
_LEFT_OUT = "..."
"""What stands for a secret: the person who runs the printed command gives it again."""


def script_here() -> str | None:
    """Return the path of the script of this process, if it runs one."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    return None if file is None else os.path.abspath(file)


def script_call(argv: Sequence[str]) -> dict[str, Any]:
    """Return what is recorded of the script that this process runs with some arguments: its path, and them, if any."""
    kept = _without_secrets(argv)
    is_kept = bool(kept) and sum(map(len, kept)) <= _LONGEST_ARGV and all(map(_is_text, kept))
    return {"script": script_here()} | ({"argv": kept} if is_kept else {})


def _without_secrets(argv: Sequence[str]) -> list[str]:
    """Return arguments without the values of options that are secrets by their name, and without passwords in URLs."""
    kept: list[str] = []
    is_secret = False
    for word in argv:
        option, equals, _ = word.partition("=")
        if is_secret and not word.startswith("-"):
            kept.append(_LEFT_OUT)
        elif equals and _SECRET.fullmatch(option):
            kept.append(f"{option}={_LEFT_OUT}")
        else:
            kept.append(_PASSWORD_OF_URL.sub(rf"\1:{_LEFT_OUT}@", word))
        is_secret = _SECRET.fullmatch(word) is not None
    return kept


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_of_script(spec: MindSpec) -> bool:
    """Return whether the flow of a goal is defined by a script."""
    return spec.at is not None and spec.at.startswith(MAIN)


def without_script(spec: MindSpec) -> MindSpec:
    """Return what makes two goals the same: all but the script, which may be moved, and its arguments."""
    args = spec.args
    return replace(spec, args={name: args[name] for name in args if name not in _OF_SCRIPT}) if args else spec


def script_command(begun: GoalBegun) -> str | None:
    """Return the command that runs the script of a goal as it was started, if the goal knows its path."""
    script, argv = _script_of(begun)
    return None if script is None else shlex.join(["python", script, *argv])


def run_again(begun: GoalBegun) -> str:
    """Describe how a goal of a script is resumed."""
    command = script_command(begun)
    if command is None:
        return f"run the program again that defined its flow (it was started in {begun.workdir})"
    return f"run the script again: {command}"


def command_here(begun: GoalBegun) -> str:
    """Return the command that runs the script of a goal again from the current folder, with the same arguments."""
    script, argv = _script_of(begun)
    if script is None:
        return run_again(begun)
    arguments = sys.argv[1:] if script == script_here() else argv
    return shlex.join(["python", shown(script), *arguments])


def _script_of(begun: GoalBegun) -> tuple[str | None, list[str]]:
    """Return the path of the script of a goal, if the goal knows it, and its arguments as they were recorded."""
    args: dict[str, Any] = begun.mind.args if isinstance(begun.mind.args, dict) else {}
    argv = args.get("argv")
    return args.get("script"), [str(word) for word in argv] if isinstance(argv, list) else []
