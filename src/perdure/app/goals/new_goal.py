"""A goal before it is started: a command, a plan, a model's task, or a flow with its arguments."""

import inspect
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.app.goals.arguments import validate
from perdure.app.goals.arguments.differences import difference_of_policies, difference_of_tasks
from perdure.errors import Invalid, NotFound, Unavailable, from_os_error
from perdure.files.opening import read_input_file
from perdure.kernel.events import GoalBegun, Limits, Message, MindSpec, ParentCall, PolicySpec
from perdure.minds.flow.flow import Flow
from perdure.minds.flow.registry import require_newest
from perdure.minds.flow.scripts import script_call
from perdure.minds.flow.steps.user_errors import described
from perdure.minds.flow.values.values import arguments_to_json, require_readable

_LONGEST = 500


@dataclass(frozen=True)
class NewGoal:
    """The task, folder, limits and options of a new goal."""

    text: str
    mind: MindSpec
    workdir: Path | None
    """None for its own folder in the home."""
    limits: Limits = field(default_factory=Limits)
    bot: str | None = None
    key: str | None = None
    """The start key; a second start with the same key is rejected."""
    tags: tuple[str, ...] = ()
    policy: PolicySpec | None = None
    """The policy for calls of a model; None: the policy of the settings."""
    flow: Flow[..., Any] | None = field(default=None, repr=False, compare=False)
    """The flow object that runs: another flow may be defined under its name before the start."""
    goal_id: str | None = None
    """The required id; None for a new one."""
    parent: ParentCall | None = None
    """The call of the parent goal that starts it, if any."""
    messages: tuple[Message, ...] = ()
    """The messages that are recorded after the start: the first message of a conversation."""
    bot_version: int | None = None
    """The version of the bot, if the goal has one."""

    def __post_init__(self) -> None:
        """Reject invalid tags and keys.

        Raises: Invalid
        """
        validate.tags(self.tags)
        validate.key(self.key, is_childs=self.parent is not None)

    def differs_from(self, begun: GoalBegun) -> str | None:
        """Return the first difference to another goal; the working folder and the limits do not count."""
        if self.policy is not None and self.policy != (begun.policy or PolicySpec()):
            return difference_of_policies(begun.policy or PolicySpec(), self.policy)
        has_name = self.flow is not None and self.flow.has_own_name
        return difference_of_tasks(begun, self.text, self.mind, self.bot, has_name=has_name)


def new_goal(
    what: Flow[..., Any] | list[str] | Path, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
) -> NewGoal:
    """Return a new goal for a flow with its arguments, a command with its arguments, or a plan file.

    Raises: Invalid; NotFound when the plan file cannot be read.
    """
    if isinstance(what, Flow):
        return of_flow(what, list(args), dict(kwargs or {}))
    if not isinstance(what, list | tuple | Path):
        raise _no_goal(what)
    if args or kwargs:
        raise Invalid("Only a flow takes arguments.")
    return of_plan(what) if isinstance(what, Path) else of_argv(what)


def require_text(what: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return the text of a goal for a model.

    Raises: Invalid when it is not a text, is the name of a plan file, or has arguments.
    """
    if not isinstance(what, str):
        raise Invalid(f"A goal for a bot or model must be a string, got {what!r}.")
    if args or kwargs:
        raise Invalid("Only a flow takes arguments.")
    if what.endswith((".yaml", ".yml")) and Path(what).is_file():
        raise Invalid(f"A text is a goal for a model. Pass a plan as a Path: p.goals.run(Path({what!r})).")
    return what


def _no_goal(what: Any) -> Invalid:
    """Return the error for an object that is not a goal, with a hint."""
    if inspect.iscoroutine(what):
        what.close()
        return Invalid("Pass a flow and its arguments separately: run(flow, 1), not run(flow(1)).")
    if inspect.isroutine(what):
        return Invalid(f"{described(what)} is not a flow: decorate it with @flow.")
    return Invalid(f"Expected a flow, a string, a list of a command's words or the Path of a plan, got {what!r}.")


def of_command(text: str, *, shell: bool = False) -> NewGoal:
    """Return a new goal for a command line, which is run by sh or split into words."""
    return NewGoal(text, MindSpec("command", shell=shell or None), Path.cwd())


def of_argv(argv: Sequence[str]) -> NewGoal:
    """Return a new goal for a program and its arguments, which are passed unchanged.

    Raises: Invalid when one is not a text, or there is none.
    """
    if not argv or not all(isinstance(word, str) for word in argv):
        raise Invalid(f"A command must be a list of strings, the program and its arguments, got {argv!r}.")
    return of_command(shlex.join(argv))


def of_plan(path: Path) -> NewGoal:
    """Return a new goal for a plan file; its text is stored, so that editing the file does not change the goal.

    Raises: Invalid, naming each problem with its line; NotFound when it cannot be read.
    """
    from perdure.minds.plan.plan_file import plan_text  # a flow or a command needs no YAML
    from perdure.minds.plan.yaml_text import MAX_BYTES

    try:
        text = plan_text(read_input_file(path, MAX_BYTES + 1), str(path))
    except OSError as error:
        failure = from_os_error(f"{path} cannot be read", error)
        raise (failure if isinstance(failure, Unavailable) else NotFound(failure.detail)) from error
    return of_plan_text(text, str(path))


def of_plan_text(text: str, name: str) -> NewGoal:
    """Return a new goal for the text of a plan; `name` is its name in messages.

    Raises: Invalid, naming each problem with its line.
    """
    from perdure.minds.plan.plan_file import parse_plan

    return NewGoal(parse_plan(text, name).goal, MindSpec("plan", plan=text), Path.cwd())


def of_flow(flow: Flow[..., Any], args: list[Any], kwargs: dict[str, Any]) -> NewGoal:
    """Return a new goal for a flow and its arguments; positional and keyword arguments are equivalent.

    Raises: Invalid when an argument cannot be stored as JSON, the flow does not take it, or another flow was defined
    under its name since.
    """
    require_newest(flow)
    try:
        bound = inspect.signature(flow.fn).bind(None, *args, **kwargs)
    except TypeError as error:
        raise Invalid(f"{flow.name} cannot be called like that: {error}.") from None
    args, kwargs = list(bound.args[1:]), bound.kwargs
    stored = arguments_to_json(flow.name, flow.fn, args, kwargs, is_given_goal=True)
    require_readable(flow.fn, args, kwargs, stored)
    shown_arguments = ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])
    script = script_call(sys.argv[1:]) if flow.is_of_script else {}
    spec = MindSpec("flow", flow=flow.name, at=flow.path, args={**stored, **script}, cleanup=flow.cleanup or None)
    return NewGoal(f"{flow.name}({shown_arguments})"[:_LONGEST], spec, Path.cwd(), flow=flow)
