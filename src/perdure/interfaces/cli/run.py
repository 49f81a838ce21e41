"""`perdure run`: run a command line or a plan file as a goal that survives."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from perdure.app import open_home
from perdure.errors import Invalid, NotFound
from perdure.interfaces.cli.answer import Answer, print_table
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.goal import listed
from perdure.interfaces.cli.timeline import exit_code_of, goal_object, next_command, timeline
from perdure.kernel.events import MindSpec, ToolCall
from perdure.kernel.loop import Loop, Ran
from perdure.minds.plan_file import parse_plan, plan_text


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "run")(run)


async def run(  # noqa: PLR0913 (each is an option of the command)
    options: Options,
    *,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="A command line to run.")] = None,
    plan: Annotated[Path | None, typer.Option("--plan", metavar="FILE", help="A plan file to run.")] = None,
    shell: Annotated[bool, typer.Option("--shell", help="Let sh run the command line.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, metavar="N", help="How many steps may run at once.")] = 4,
    resume: Annotated[str | None, typer.Option("--resume", metavar="ID", help="Go on with a goal.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the newest goals.")] = False,
) -> Answer:
    """Run a command or a plan, step by step; kill it at any moment and --resume carries on."""
    if sum([text is not None, plan is not None, resume is not None, list_]) != 1:
        raise Invalid("Give a command line, or --plan FILE, or --resume ID, or --list: one of them.")
    async with open_home(options.settings(), debug=options.verbose) as p:
        if list_:
            return await listed(p, limit=50)
        if resume is not None:
            ran = await p.goals.resume(resume, jobs=jobs, watch=_stop_on_interrupt)
        else:
            spec, words = _mind(text, plan, shell=shell)
            ran = await p.goals.run(spec, words, Path.cwd(), jobs=jobs, watch=_stop_on_interrupt)
    return answered(ran, is_quiet=options.json)


def answered(ran: Ran, *, is_quiet: bool) -> Answer:
    """Answer with what the tools printed; how it went goes to standard error."""
    state = ran.state
    if not is_quiet:
        print(f"{state.goal_id}: {state.termination.reason if state.termination else ran.outcome}", file=sys.stderr)
        print_table(timeline(state), sys.stderr)
        for line in next_command(state):
            print(line, file=sys.stderr)
        if ran.outcome != "ended":
            print(f"Go on: perdure run --resume {state.goal_id}", file=sys.stderr)
    printed = [
        str(call.outcome.output.get("stdout", "")).removesuffix("\n")
        for call in state.calls.values()
        if isinstance(call.call, ToolCall) and call.outcome is not None and isinstance(call.outcome.output, dict)
    ]
    return Answer(goal_object(state), [text for text in printed if text], exit_code=exit_code_of(ran))


def _mind(text: str | None, plan: Path | None, *, shell: bool) -> tuple[MindSpec, str]:
    if plan is None:
        return MindSpec("command", shell=shell or None), text or ""
    try:
        content = plan_text(plan.read_bytes(), str(plan))
    except OSError as error:
        raise NotFound(f"{plan} cannot be read: {error.strerror}.") from error
    return MindSpec("plan", plan=content), parse_plan(content, str(plan)).goal


def _stop_on_interrupt(loop: Loop) -> None:
    """Let the first Ctrl-C end the run after the step, and the second at once."""
    running = asyncio.get_running_loop()
    task = asyncio.current_task()

    def second() -> None:
        running.remove_signal_handler(signal.SIGINT)
        if task is not None:
            task.cancel()

    def first() -> None:
        print("Ending after the step that runs; once more ends at once.", file=sys.stderr)
        loop.stop()
        running.add_signal_handler(signal.SIGINT, second)

    if os.name == "posix":
        running.add_signal_handler(signal.SIGINT, first)
