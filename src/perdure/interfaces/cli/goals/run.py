"""`perdure run`: run a command line, a plan file or a flow as a goal that survives."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from perdure.app import open_ephemeral, open_home
from perdure.app.goals.new_goal import NewGoal, of_command, of_plan
from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.completion import complete_tags
from perdure.interfaces.cli.goals.flags import (
    JOBS,
    Jobs,
    Jsonl,
    Limited,
    filled,
    limits_of,
    refuse_both,
    with_limits,
)
from perdure.interfaces.cli.goals.goal import list_, resumed
from perdure.interfaces.cli.goals.run_ui.flows import forks_offered, new_flow
from perdure.interfaces.cli.goals.run_ui.run_ui import Showing, Stage, staged
from perdure.interfaces.cli.logs import keep_no_log
from perdure.interfaces.cli.shell_hints import exact
from perdure.kernel.events import Limits
from perdure.kernel.loop import RunResult
from perdure.tools.goal_policy import read_policy

_PLAN_SUFFIXES = (".yaml", ".yml")
AS_COMMAND = "No model is configured, so the text is run as a command."


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "run", runs_flows=True, server=True)(run)


Text = Annotated[str | None, typer.Argument(metavar="TEXT", help="A command line to run.")]
Plan = Annotated[Path | None, typer.Option("--plan", metavar="FILE", help="A plan file to run.")]
FlowPath = Annotated[
    str | None,
    typer.Option(
        "--flow",
        metavar="MODULE:FUNCTION",
        help="A flow to run, or its name if --import names its module. The module is looked for in the current folder"
        " first, on --resume in that same folder.",
    ),
]
Args = Annotated[
    str | None,
    typer.Option("--args", metavar="JSON", help="With --flow: a list of arguments, or an object of named ones."),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help="Names this start: the same key again resumes that goal, or prints how it ended.",
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        metavar="TAG",
        help="A label of the new goal, to find it by; can be given up to 20 times.",
        autocompletion=complete_tags,
    ),
]
GoOnWith = Annotated[
    str | None,
    typer.Option(
        "--resume", metavar="ID", help="Resume the goal with this id, or with key:KEY; a prefix is not enough."
    ),
]
Continue = Annotated[
    bool, typer.Option("--continue", help="Resume the newest goal of this folder that is interrupted or waits.")
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="PRESET",
        help="What a model may do without asking in the new goal: ask or read-only; default: setting policy.preset.",
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Approve what a model wants to do; a command, a plan or a flow needs no approval.")
]
Ephemeral = Annotated[
    bool, typer.Option("--ephemeral", help="Keep nothing: no history, no log, no home; it cannot be resumed.")
]


@with_limits
async def run(  # noqa: PLR0913 (each is an option of the command)
    options: Options,
    *,
    limited: Limited,
    text: Text = None,
    plan: Plan = None,
    flow: FlowPath = None,
    args: Args = None,
    key: Key = None,
    tag: Tags = None,
    resume: GoOnWith = None,
    continue_: Continue = False,
    list_goals: Annotated[bool, typer.Option("--list", help="List the newest goals.")] = False,
    shell: Annotated[bool, typer.Option("--shell", help="Let sh run the command line.")] = False,
    jobs: Jobs = JOBS,
    policy: Policy = None,
    yes: Yes = False,
    ephemeral: Ephemeral = False,
    jsonl: Jsonl = False,
) -> Answer:
    """Run a command, a plan or a flow, step by step; kill it at any moment and --resume carries on.

    Standard output has what the tools print, as soon as it is recorded, and what a flow returned; on a terminal
    without control characters. On a terminal, questions are asked in place, unless --no-input is given.
    """
    if ephemeral:
        keep_no_log()
    limits = limits_of(limited)
    wanted = Wanted(
        *(text, plan, flow, args, key, resume),
        is_shell=shell,
        is_continued=continue_,
        is_list=list_goals,
        tags=tag or (),
        policy=policy,
    )
    wanted.require_sense(options, ephemeral=ephemeral, is_limited=limits != Limits(), jsonl=jsonl)
    refuse_both(json=options.json, jsonl=jsonl)
    if list_goals:
        return await list_(options)
    showing = Showing(options, is_jsonl=jsonl, is_kept=not ephemeral)
    if options.server is not None:
        of_here = {"--ephemeral": ephemeral, "--continue": continue_, "--jobs": jobs != JOBS, "--yes": yes}
        return await _at_server(showing, options.server, wanted, limits, of_here)
    if resume is not None or continue_:
        return await resumed(showing, resume, jobs, limits, yes=yes)
    return await _begun(showing, _maker(options, wanted, limits), jobs, yes=yes)


def _maker(options: Options, wanted: "Wanted", limits: Limits) -> Callable[[], NewGoal]:
    """Return what makes the goal that was asked for.

    Raises: Invalid when there is no such policy.
    """
    imports = options.settings().imports if wanted.flow is not None else ()
    tags, judged_by = tuple(wanted.tags), read_policy(wanted.policy)
    return lambda: replace(wanted.new(imports), limits=limits, key=wanted.key, tags=tags, policy=judged_by)


async def _at_server(
    showing: Showing, url: str, wanted: "Wanted", limits: Limits, of_here: Mapping[str, bool]
) -> Answer:
    """Start or resume a goal at a server, and follow it; `of_here` says which options for a run here were given."""
    from perdure.interfaces.cli.remote.runs import require_for_server, resume_at_server, start_at_server

    require_for_server(of_here)
    if wanted.resume is not None:
        return await resume_at_server(showing, url, filled(wanted.resume), limits)
    if wanted.text is not None and not wanted.is_shell and not showing.is_for_program:
        print(AS_COMMAND, file=sys.stderr)
    return await start_at_server(showing, url, wanted, limits)


def _refuse_plan_as_command(options: Options, text: str | None) -> None:
    """Refuse the name of a YAML file as a command line: it is a plan that lacks its option.

    Raises: Invalid
    """
    if text is not None and text.endswith(_PLAN_SUFFIXES) and not any(map(str.isspace, text)):
        with suppress(OSError, ValueError):  # not a name that a file can have
            if Path(text).is_file():
                command = exact(options, "run", "--plan", text)
                raise Invalid(f"{text} is a file. To run it as a plan: {command}")


@dataclass(frozen=True)
class Wanted:
    """What `run` was asked to do, as it was typed."""

    text: str | None
    plan: Path | None
    flow: str | None
    args: str | None
    key: str | None
    resume: str | None
    is_shell: bool
    is_continued: bool
    is_list: bool
    tags: Sequence[str] = ()
    policy: str | None = None

    def require_sense(self, options: Options, *, ephemeral: bool, is_limited: bool, jsonl: bool) -> None:
        """Refuse options that do not go together.

        Raises: Invalid
        """
        _refuse_plan_as_command(options, self.text)
        new = [self.text is not None, self.plan is not None, self.flow is not None]
        if sum([*new, self.resume is not None, self.is_continued, self.is_list]) != 1:
            raise Invalid("Give one of: a command line, --plan FILE, --flow M:F, --resume ID, --continue, --list.")
        if self.args is not None and self.flow is None:
            raise Invalid("--args is what a flow is called with; give it with --flow.")
        if self.is_shell and self.text is None:
            raise Invalid("--shell is for a command line; a plan says `shell: true` for each step that needs it.")
        if self.key is not None and (ephemeral or not any(new)):
            raise Invalid("--key names the start of a goal that is kept; --resume ID and --continue need none.")
        if not any(new):
            self._require_no_start()
        if ephemeral and not any(new):
            raise Invalid("--ephemeral is for a new goal: one that is kept nowhere can be neither resumed nor listed.")
        if self.is_list and (is_limited or jsonl):
            raise Invalid("--list runs nothing: it takes neither limits nor --jsonl.")

    def _require_no_start(self) -> None:
        """Refuse what only a new goal takes.

        Raises: Invalid
        """
        if self.tags:
            raise Invalid("--tag labels a new goal; the tags of a goal that exists stay as they are.")
        if self.policy is not None:
            raise Invalid("--policy is for a new goal; a goal that exists keeps the policy that it was started with.")

    def new(self, imports: Sequence[str]) -> NewGoal:
        """Make the goal that was asked for.

        Raises: Invalid; NotFound when there is no such plan or flow.
        """
        if self.flow is not None:
            return new_flow(self.flow, self.args, imports)
        return of_plan(self.plan) if self.plan is not None else of_command(self.text or "", shell=self.is_shell)


async def _begun(showing: Showing, make: Callable[[], NewGoal], jobs: int, *, yes: bool) -> Answer:
    """Begin a goal, in the home or in memory alone."""
    options = showing.options

    async def act(stage: Stage) -> RunResult:
        new = make()
        if new.mind.kind == "command" and not new.mind.shell and not showing.is_for_program:
            stage.view.say(AS_COMMAND)
        run_options = stage.run_options(jobs, yes=yes)
        if not showing.is_kept:
            async with open_ephemeral() as goals:
                return await stage.settle_in_place(goals, await goals.begin(new, run_options), run_options)
        async with open_home(options.settings(), debug=options.verbose) as p:
            with forks_offered(options):
                result = await p.goals.begin_once(new, run_options)
            return await stage.settle_in_place(p.goals, result, run_options)

    return await staged(showing, act)
