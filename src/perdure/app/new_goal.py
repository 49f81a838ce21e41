"""What somebody wants to be achieved, before it is a goal: a command, a plan or a flow with its arguments."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.errors import Invalid, NotFound
from perdure.kernel.events import Limits, MindSpec
from perdure.minds.flow import Flow
from perdure.minds.plan_file import parse_plan, plan_text
from perdure.minds.values import to_json
from perdure.minds.yaml_text import MAX_BYTES

_LONGEST = 500


@dataclass(frozen=True)
class NewGoal:
    """What somebody wants to be achieved, in which folder, and with how much."""

    text: str
    mind: MindSpec
    workdir: Path
    limits: Limits = field(default_factory=Limits)
    bot: str | None = None
    key: str | None = None
    """Names this one start: a second with the same key is refused."""


def new_goal(what: Flow | str | Path, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> NewGoal:
    """Make a goal of a flow with its arguments, of a command line, or of a plan file, in the current folder.

    Raises: Invalid; NotFound when the plan file cannot be read.
    """
    if isinstance(what, Flow):
        return of_flow(what, list(args), dict(kwargs or {}))
    if args or kwargs:
        raise Invalid("Only a flow takes arguments.")
    return of_plan(what) if isinstance(what, Path) else of_command(what)


def of_command(text: str, *, shell: bool = False) -> NewGoal:
    """Make a goal of a command line."""
    return NewGoal(text, MindSpec("command", shell=shell or None), Path.cwd())


def of_plan(path: Path) -> NewGoal:
    """Make a goal of a plan file; its whole text is kept, so that editing the file changes no goal.

    Raises: Invalid, naming each problem with its line; NotFound when it cannot be read.
    """
    try:
        with path.open("rb") as file:
            text = plan_text(file.read(MAX_BYTES + 1), str(path))
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}.") from error
    return NewGoal(parse_plan(text, str(path)).goal, MindSpec("plan", plan=text), Path.cwd())


def of_flow(flow: Flow, args: list[Any], kwargs: dict[str, Any]) -> NewGoal:
    """Make a goal of a flow and what it is called with.

    Raises: Invalid when an argument does not go through JSON, or the flow does not take it.
    """
    try:
        inspect.signature(flow.fn).bind(None, *args, **kwargs)
    except TypeError as error:
        raise Invalid(f"{flow.name} cannot be called like that: {error}.") from None
    given = {
        "args": to_json(args, f"An argument of {flow.name}"),
        "kwargs": to_json(kwargs, f"An argument of {flow.name}"),
    }
    said = ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])
    return NewGoal(f"{flow.name}({said})"[:_LONGEST], MindSpec("flow", flow=flow.path, args=given), Path.cwd())
