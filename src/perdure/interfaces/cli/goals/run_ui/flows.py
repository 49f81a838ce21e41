"""Flows on the command line: where their modules are looked for, and what they are called with."""

import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, chdir, contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.home.workdirs import is_own_workdir
from perdure.errors import Conflict, Invalid
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.shell_hints import exact
from perdure.kernel.events import Limits
from perdure.kernel.history.reopening import NotRetried
from perdure.kernel.loop import RunResult
from perdure.kernel.ports import Summary
from perdure.text.strict_json import PAYLOAD, NotJson, parse_json

if TYPE_CHECKING:
    from perdure.app.goals.new_goal import NewGoal


def new_flow(path: str, args: str | None, imports: Sequence[str] = ()) -> "NewGoal":
    """Make a goal of a flow and its arguments: a JSON list, or a JSON object of named ones.

    The flow is given as `module:function`, or by its name if a module in `imports` defines it.

    Raises: Invalid; NotFound when there is no such flow.
    """
    from perdure.app.goals.new_goal import of_flow
    from perdure.app.workers.flows import load_flow

    given = arguments(args)
    look_in(str(Path.cwd()))
    flow = load_flow(path, imports)
    return of_flow(flow, [], given) if isinstance(given, dict) else of_flow(flow, given, {})


def arguments(text: str | None) -> list[Any] | dict[str, Any]:
    """Read what a flow is called with.

    Raises: Invalid
    """
    try:
        given = [] if text is None else from_json("--args", text)
    except Invalid as error:
        raise _no_arguments(text) from error
    if not isinstance(given, list | dict):
        raise _no_arguments(text)
    return given


def _no_arguments(text: str | None) -> Invalid:
    return Invalid(
        """--args is a JSON list of arguments, such as '["2026-11-15"]', or an object of named ones, each once, such"""
        f""" as '{{"day": "2026-11-15"}}'; found {str(text)[:40]!r}."""
    )


def from_json(name: str, text: str) -> Any:
    """Read a value that was typed as JSON.

    Raises: Invalid
    """
    try:
        return parse_json(text, name, PAYLOAD)
    except NotJson as error:
        raise Invalid(f"{name} is JSON, such as '\"text\"' or '{{\"a\": 1}}'; found {text[:40]!r}.") from error


def look_in(folder: str) -> None:
    """Let modules be found in a folder first, as Python does for a script."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


async def resume_run(
    options: Options, goals: Goals, goal_id: str, run_options: RunOptions, limits: Limits | None = None
) -> RunResult:
    """Resume a goal in its folder.

    Raises: what Goals.resume_run raises.
    """
    return await run_in_its_folder(
        options, goals, goal_id, lambda whole_id: goals.resume_run(whole_id, run_options, limits)
    )


async def run_in_its_folder(
    options: Options, goals: Goals, goal_id: str, run: Callable[[str], Awaitable[RunResult]]
) -> RunResult:
    """Run a goal; a flow runs in the folder where it was started, and its module is looked for there.

    The current folder may be another repository, and a module of the same name there is not the flow. A relative path
    in a step, or in its check, must mean the same file as before: otherwise the effect would happen a second time.

    Raises: NotFound; what `run` raises.
    """
    found = (await goals.get(goal_id)).summary
    with forks_offered(options), in_folder_of(found):
        return await run(found.goal_id)


def in_folder_of(goal: Summary) -> AbstractContextManager[None]:
    """Find the module of a flow, and change to the folder where it was started; one of a server has no such folder.

    A flow of a server that the command line has resumed is in the queue `cli` from then on, and still has none.
    """
    if goal.mind != "flow" or goal.workdir is None:
        return nullcontext()
    look_in(goal.workdir)
    has_folder = goal.queue == "cli" and not is_own_workdir(goal.workdir)
    return chdir(goal.workdir) if has_folder and Path(goal.workdir).is_dir() else nullcontext()


@contextmanager
def forks_offered(options: Options) -> Iterator[None]:
    """Complete the error about changed code of a flow with the command that forks its goal in the same home.

    Raises: Conflict
    """
    try:
        yield
    except NotRetried as error:
        if error.before is None:
            raise
        command = exact(options, "goal", "fork", error.goal_id, "--before", error.before)
        raise NotRetried(error.what, error.goal_id, error.before, command) from error
    except Conflict as error:
        from perdure.minds.flow.execution.recorded_steps import ChangedFlow

        if not isinstance(error, ChangedFlow):
            raise
        command = exact(options, "goal", "fork", error.goal_id, "--before", error.step)
        raise ChangedFlow(error.what, error.goal_id, error.step, command) from error


async def require_code(goals: Goals, goal_id: str) -> None:
    """See that a goal can be gone on with here, before something is recorded that is to be followed by that.

    Raises: NotFound, Invalid when it is a flow whose code is not here.
    """
    found = await goals.get(goal_id)
    if found.summary.mind != "flow" or found.is_running:
        return
    if found.summary.workdir is not None:
        look_in(found.summary.workdir)
    await goals.require_code(found.id)


@contextmanager
def prints_aside(*, is_needed: bool) -> Iterator[None]:
    """Let what a flow prints go to standard error where standard output is for a program."""
    if not is_needed:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield
