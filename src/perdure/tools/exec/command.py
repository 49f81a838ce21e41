"""The arguments of an `exec` call, validated before a program runs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perdure.errors import Denied, Invalid, NotFound
from perdure.kernel.tool import CallContext, ToolSpec
from perdure.tools.confine import confined, require_path

_LONGEST_S = 1e9
_TEXT = {"type": "string", "pattern": r"^[^\u0000]*$"}
_ARGV = {
    "type": "array",
    "prefixItems": [{**_TEXT, "minLength": 1}],
    "items": _TEXT,
    "minItems": 1,
}
_NAME = {"pattern": r"^[^=\u0000]+$"}
_PROPERTIES: Mapping[str, Any] = {
    "argv": {**_ARGV, "description": "The program and its arguments; with shell, one text: the command line."},
    "shell": {"type": ["boolean", "null"], "description": "Let sh run the command line (default: false)."},
    "timeout_s": {
        "type": ["number", "null"],
        "exclusiveMinimum": 0,
        "maximum": _LONGEST_S,
        "description": "After how many seconds the program is ended.",
    },
    "env": {
        "type": ["object", "null"],
        "propertyNames": _NAME,
        "additionalProperties": _TEXT,
        "description": "Variables to set beside those that the program has anyway.",
    },
    "cwd": {
        "type": ["string", "null"],
        "minLength": 1,
        "pattern": _TEXT["pattern"],
        "description": "The folder to run in, inside the goal's folder (default: the goal's folder).",
    },
    "check": {
        **_ARGV,
        "type": ["array", "null"],
        "description": "A program that says after a crash whether this one has had its effect: exit code 0 or 1.",
    },
}
SPEC = ToolSpec(
    "exec",
    "Runs a program in the goal's folder to its end and returns its exit code and what it wrote to stdout and stderr."
    " No shell reads the arguments unless shell is true.",
    {
        "type": "object",
        "properties": _PROPERTIES,
        "required": ["argv"],
        "additionalProperties": False,
        "if": {"properties": {"shell": {"const": True}}, "required": ["shell"]},
        "then": {"properties": {"argv": {"maxItems": 1}}},
    },
    "once",
    declares_effect=True,
)
"""The description of the tool. Its effect is that of the program, which only the author of a plan knows."""
_SHELL_WORDS = frozenset(
    [
        "!",
        ".",
        ":",
        "alias",
        "bg",
        "break",
        "case",
        "cd",
        "command",
        "continue",
        "eval",
        "exec",
        "exit",
        "export",
        "fg",
        "for",
        "function",
        "hash",
        "if",
        "jobs",
        "local",
        "read",
        "readonly",
        "return",
        "set",
        "shift",
        "source",
        "times",
        "trap",
        "type",
        "ulimit",
        "umask",
        "unalias",
        "unset",
        "until",
        "wait",
        "while",
        "{",
    ]
)
"""Builtins and keywords of the shell; some systems also have programs with these names."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run, with its arguments, folder, environment and timeout."""

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    timeout_s: float | None = None


def key_mark(goal_id: str, call_id: str) -> str:
    """Return the environment entry of every process of a call, the same in a copy of its home."""
    return f"PERDURE_IDEMPOTENCY_KEY={goal_id}/{call_id}"


def home_mark(home_id: str) -> str:
    """Return the environment entry of every process of a home."""
    return f"PERDURE_HOME_ID={home_id}"


@dataclass(frozen=True, slots=True)
class ExecArguments:
    """The arguments of a call, validated without access to files."""

    argv: tuple[str, ...]
    check: tuple[str, ...] | None
    cwd: str | None
    env: Mapping[str, str]
    timeout_s: float | None


def parse_arguments(arguments: Any) -> ExecArguments:
    """Validate the arguments of a call; a check never runs in a shell.

    Raises: Invalid, with the expected form.
    """
    if not isinstance(arguments, Mapping):
        raise Invalid("The arguments of exec must be an object.")
    if unknown := sorted(map(repr, arguments.keys() - _PROPERTIES.keys())):
        raise Invalid(f"exec has no argument {unknown[0]}. It has: {', '.join(sorted(_PROPERTIES))}.")
    shell, check, cwd = (arguments.get(name) for name in ("shell", "check", "cwd"))
    if not isinstance(shell, bool | None):
        raise Invalid("shell must be true or false.")
    argv = _argv("argv", arguments.get("argv"), shell=bool(shell))
    check_argv = None if check is None else _argv("check", check, shell=False)
    return ExecArguments(
        argv=argv,
        check=check_argv,
        cwd=None if cwd is None else require_path(cwd),
        env=_env(arguments.get("env")),
        timeout_s=_timeout(arguments.get("timeout_s")),
    )


def parse_command(context: CallContext, home_id: str) -> tuple[Command, Command | None]:
    """Return the command of a call, and the command of its check.

    Raises: Invalid, with the expected form.
    """
    asked = parse_arguments(context.call.arguments)
    cwd = _folder(context.workdir, asked.cwd)
    environment = _environment(context, asked.env, cwd, home_id)
    command = Command(asked.argv, cwd, environment, asked.timeout_s)
    return command, None if asked.check is None else replace(command, argv=asked.check)


def find_program(command: Command) -> str:
    """Return the name of the program for `exec` of the shell, which must not mistake it for an option.

    Raises: NotFound when it does not exist; Denied when it cannot be executed.
    """
    program = command.argv[0]
    folders = [""] if "/" in program else command.environment.get("PATH", os.defpath).split(os.pathsep)
    places = [place for folder in folders if os.path.lexists(place := command.cwd / folder / program)]
    for place in places:
        if os.access(place, os.X_OK) and not os.path.isdir(place):  # noqa: PTH112 (never raises, Path.is_dir does)
            return str(place) if program.startswith("-") else program
    if places:
        raise Denied(f"{places[0]} cannot be executed.")
    hint = " It is a word of the shell: use --shell, or shell: true in a plan." if program in _SHELL_WORDS else ""
    raise NotFound(f"There is no program {program!r}.{hint}")


def _argv(name: str, value: Any, *, shell: bool) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise Invalid(f"{name} must be a list of strings, the program first.")
    for text in value:
        _require_text(name, text)
    if not value[0]:
        raise Invalid(f"{name} begins with an empty text; a program was expected.")
    if shell and len(value) > 1:
        raise Invalid(f"With shell, {name} is a list of one text, the command line; {len(value)} were found.")
    return ("/bin/sh", "-c", *value) if shell else tuple(value)


def _folder(workdir: str, cwd: str | None) -> Path:
    place = confined(workdir, "." if cwd is None else cwd)
    if not os.path.isdir(place):  # noqa: PTH112 (never raises, Path.is_dir does)
        raise Invalid(f"{place} is not a folder; the program was to run in it.")
    return place


def _timeout(value: Any) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= _LONGEST_S:
        raise Invalid(f"timeout_s must be a number from 0 to {_LONGEST_S:.0e}, not {value!r:.80}.")
    return float(value)


def _env(given: Any) -> Mapping[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise Invalid("env must be an object of strings.")
    for name, value in given.items():
        _require_text("env", name)
        _require_text(f"env {name}", value)
        if not name or "=" in name:
            raise Invalid(f"{name!r:.80} cannot be the name of a variable.")
    return given


def _environment(context: CallContext, given: Mapping[str, str], cwd: Path, home_id: str) -> dict[str, str]:
    seen = {name: value.replace("\0", "") for name, value in context.environment.items()}  # as $(...) does
    marks = (key_mark(context.goal_id, context.call.call_id), home_mark(home_id))
    names = {"PERDURE_GOAL_ID": context.goal_id, "PERDURE_STEP_KEY": context.step_key}
    ours = {**names, **dict(mark.split("=", 1) for mark in marks)}
    for value in (*seen.values(), *ours.values()):
        _require_text("The environment", value)
    return {**os.environ, "PWD": str(cwd), **given, **seen, **ours}


def _require_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise Invalid(f"{name} must hold strings only, not {value!r:.80}.")
    try:
        if b"\0" in os.fsencode(value):
            raise Invalid(f"{name} holds a zero byte, which no program can be given.")
    except UnicodeEncodeError as error:
        raise Invalid(f"{name} holds a string that is not Unicode: {error}.") from error
