"""`perdure demo`: kills and resumes a flow and a command, retries a failed goal, and ends with a bot that answers."""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import typer

from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.demo import answer, scenes
from perdure.interfaces.cli.demo.shell import Shell
from perdure.interfaces.cli.logs import keep_no_log


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "demo")(demo)


async def demo(options: Options) -> CommandResult:
    """Kill and resume a flow, decide an unknown outcome, retry a failed goal, and make a bot that answers.

    Everything runs in a temporary home, which is removed afterwards.
    """
    from perdure.interfaces.cli.demo import interview

    keep_no_log()
    begun_s = time.monotonic()

    def show(text: str) -> None:
        if not options.json:
            print(text)
            sys.stdout.flush()

    data: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="perdure-demo-", ignore_cleanup_errors=True) as folder:
        shell = Shell(Path(folder), show)
        try:
            data["killed"] = await scenes.kill_a_flow(shell)
            data["unknown"] = await scenes.decide_an_unknown_outcome(shell)
            data["retried"] = await scenes.retry_a_failed_goal(shell)
            data["forge"] = await interview.make_a_bot(shell)
            data["answered"] = await answer.ask_the_bot(shell, data["forge"]["bot"])
        finally:
            await shell.close()
    data["seconds"] = round(time.monotonic() - begun_s, 1)
    show(f"All commands really ran, in {data['seconds']} s, in a temporary home. Next: perdure --help")
    return CommandResult(data, exit_code=0 if scenes.is_right(data) else 1)
