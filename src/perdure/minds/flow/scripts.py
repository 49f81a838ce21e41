"""Flows that a script defines itself: their goals go on when that script is run again, and by nothing else."""

import os
import shlex
import sys
from dataclasses import replace

from perdure.kernel.events import GoalBegun, MindSpec
from perdure.minds.flow.steps.tracebacks import shown

MAIN = "__main__:"


def script_here() -> str | None:
    """Return the path of the script that this process runs, if it runs one."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    return None if file is None else os.path.abspath(file)


def is_of_script(spec: MindSpec) -> bool:
    """Tell whether a goal is of a flow that a script defines itself."""
    return spec.at is not None and spec.at.startswith(MAIN)


def without_script(spec: MindSpec) -> MindSpec:
    """Return what makes two goals the same: all but the place of the script, which may be moved."""
    args = spec.args
    return replace(spec, args={name: args[name] for name in args if name != "script"}) if args else spec


def script_command(begun: GoalBegun) -> str | None:
    """Return the command that runs the script of a goal, if the goal knows its path."""
    script = begun.mind.args.get("script") if isinstance(begun.mind.args, dict) else None
    return None if script is None else shlex.join(["python", script])


def run_again(begun: GoalBegun) -> str:
    """Say how a goal of a script is resumed."""
    command = script_command(begun)
    if command is None:
        return f"run the program again that defined its flow (it was started in {begun.workdir})"
    return f"run the script again: {command}"


def command_here(begun: GoalBegun) -> str:
    """Return the command that runs the script of a goal again from the current folder, with the same arguments."""
    script = begun.mind.args.get("script") if isinstance(begun.mind.args, dict) else None
    if script is None:
        return run_again(begun)
    arguments = sys.argv[1:] if script == script_here() else []
    return shlex.join(["python", shown(script), *arguments])
