"""Flows on the command line: the search path of their modules, and their arguments."""

import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, chdir, contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.app.goals.arguments.limits import Limits
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.errors import ForkOffered
from perdure.app.goals.goals import Goals
from perdure.app.goals.values import RunResult, Summary
from perdure.app.home.workdirs import is_own_workdir
from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.shell_hints import exact
from perdure.text.strict_json import PAYLOAD, NotJson, parse_json

if TYPE_CHECKING:
    from perdure.app.goals.new_goal import NewGoal


def new_flow(path: str, args: str | None, imports: Sequence[str] = ()) -> "NewGoal":
    """Return a new goal for a flow and its arguments: a JSON list, or a JSON object of keyword arguments.

    `path` is `module:function`, or the name of a flow that a module in `imports` defines.

    Raises: Invalid; NotFound when there is no such flow.
    """
    from perdure.app.goals.new_goal import of_flow
    from perdure.app.workers.flows import load_flow

    values = read_arguments(args)
    add_module_folder(str(Path.cwd()))
    flow = load_flow(path, imports)
    return of_flow(flow, [], values) if isinstance(values, dict) else of_flow(flow, values, {})


def read_arguments(text: str | None) -> list[Any] | dict[str, Any]:
    """Parse the arguments of a flow.

    Raises: Invalid
    """
    try:
        values = [] if text is None else read_json_option("--args", text)
    except Invalid as error:
        raise _no_arguments(text) from error
    if not isinstance(values, list | dict):
        raise _no_arguments(text)
    return values


def _no_arguments(text: str | None) -> Invalid:
    return Invalid(
        """--args must be a JSON list of arguments, such as '["2026-11-15"]', or a JSON object of keyword arguments,"""
        f""" such as '{{"day": "2026-11-15"}}', got {str(text)[:40]!r}."""
    )


def read_json_option(name: str, text: str) -> Any:
    """Parse the JSON value of an option.

    Raises: Invalid
    """
    try:
        return parse_json(text, name, PAYLOAD)
    except NotJson as error:
        raise Invalid(f"{name} must be JSON, such as '\"text\"' or '{{\"a\": 1}}', got {text[:40]!r}.") from error


def add_module_folder(folder: str) -> None:
    """Put a folder first on the module search path, as Python does for a script."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


async def resume_run(
    options: Options, goals: Goals, goal_id: str, run_options: RunOptions, limits: Limits | None = None
) -> RunResult:
    """Resume a goal in its folder.

    Raises: the errors of Goals.resume_run.
    """
    return await run_in_its_folder(
        options, goals, goal_id, lambda whole_id: goals.resume_run(whole_id, run_options, limits)
    )


async def run_in_its_folder(
    options: Options, goals: Goals, goal_id: str, run: Callable[[str], Awaitable[RunResult]]
) -> RunResult:
    """Run a goal; a flow runs in the folder where it was started, and its module is searched there.

    The current folder may be another repository with a different module of the same name. A relative path in a step, or
    in its check, must refer to the same file as before: otherwise the effect could happen twice.

    Raises: NotFound; the errors of `run`.
    """
    found = (await goals.get(goal_id)).summary
    with complete_fork_offers(options), in_folder_of(found):
        return await run(found.goal_id)


def in_folder_of(goal: Summary) -> AbstractContextManager[None]:
    """Return a context in the folder where a flow was started, with its modules on the search path.

    A flow of a server has no such folder, even after the command line has resumed it and moved it to the queue `cli`.
    """
    if goal.mind != "flow" or goal.workdir is None:
        return nullcontext()
    add_module_folder(goal.workdir)
    has_folder = goal.queue == "cli" and not is_own_workdir(goal.workdir)
    return chdir(goal.workdir) if has_folder and Path(goal.workdir).is_dir() else nullcontext()


@contextmanager
def complete_fork_offers(options: Options) -> Iterator[None]:
    """Add the fork command for the same home to an error that suggests a fork.

    Raises: ForkOffered
    """
    try:
        yield
    except ForkOffered as error:
        if error.before is None:
            raise
        command = exact(options, "goal", "fork", error.goal_id, "--before", error.before)
        raise error.with_command(command) from error


async def require_code(goals: Goals, goal_id: str) -> None:
    """Check that a goal can be resumed here; called before a decision is recorded that is followed by a resume.

    Raises: NotFound, Invalid when it is a flow whose code cannot be imported.
    """
    found = await goals.get(goal_id)
    if found.summary.mind != "flow" or found.is_running:
        return
    if found.summary.workdir is not None:
        add_module_folder(found.summary.workdir)
    await goals.require_code(found.id)


@contextmanager
def redirect_prints(*, is_needed: bool) -> Iterator[None]:
    """Redirect the prints of a flow to standard error if standard output has JSON for a program."""
    if not is_needed:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield
