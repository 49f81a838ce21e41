"""Starts, resumes and retries goals at a server."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.app.goals.arguments.limits import Limits
from perdure.app.wire.goal_view import GoalView
from perdure.errors import Invalid
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.files import read_file
from perdure.interfaces.cli.goals.run_ui.flows import read_arguments
from perdure.interfaces.cli.goals.run_ui.run_ui import Showing
from perdure.interfaces.cli.remote.following import run_at_server
from perdure.interfaces.cli.remote.goals import ServerGoals, limits_wire, policy_wire

if TYPE_CHECKING:
    from perdure.interfaces.cli.goals.run_ui.run_arguments import RunArguments

_LARGEST_PLAN = 500_000


def require_for_server(local_options: Mapping[str, bool]) -> None:
    """Reject options that only apply to a run in this process; each option is mapped to whether it is set.

    Raises: Invalid
    """
    for name, is_set in local_options.items():
        if is_set:
            raise Invalid(f"{name} applies to goals that run in this process; omit it with a server.")


async def start_at_server(showing: Showing, url: str, wanted: "RunArguments", limits: Limits) -> CommandResult:
    """Start a goal at a server, and follow it; with a key, once.

    Raises: Invalid; NotFound when there is no such plan; Denied when the server does not allow the flow; what
    `run_at_server` raises.
    """
    body = _body(wanted, limits)

    async def start(goals: ServerGoals) -> tuple[GoalView, int]:
        return await goals.start(body, key=wanted.key), 0

    return await run_at_server(showing, url, start)


async def resume_at_server(
    showing: Showing,
    url: str,
    name: str | None,
    limits: Limits,
    *,
    model: str | None = None,
    after: int | None = None,
) -> CommandResult:
    """Resume a goal at a server, and follow it from its last event; a running or finished goal is only followed.

    `after` is the last event that the caller has seen, if it was read before this call.

    Raises: NotFound; Conflict; Invalid; the errors of `run_at_server`.
    """
    if name is None:
        raise Invalid("With a server, pass the id of the goal: the server does not know the current folder.")

    async def start(goals: ServerGoals) -> tuple[GoalView, int]:
        found = await goals.get(name)
        is_kept = found.is_final or found.is_running or found.is_queued
        is_as_before = limits == Limits() and model is None
        resumed = found if is_kept and is_as_before else await goals.resume(found.id, limits, model=model)
        seen = 0 if found.is_final else found.summary.last_seq
        return resumed, seen if after is None else after

    return await run_at_server(showing, url, start)


async def retry_at_server(  # noqa: PLR0913 (each is an option of the command)
    showing: Showing, url: str, name: str, limits: Limits, *, reason: str | None, key: str | None, policy: str | None
) -> CommandResult:
    """Retry a failed goal at a server, and follow it from its last event.

    Raises: NotFound; Conflict; Invalid; what `run_at_server` raises.
    """

    async def start(goals: ServerGoals) -> tuple[GoalView, int]:
        found = await goals.get(name)
        return await goals.retry(found.id, limits, reason=reason, key=key, policy=policy), found.summary.last_seq

    return await run_at_server(showing, url, start)


def _body(wanted: "RunArguments", limits: Limits) -> dict[str, Any]:
    """Return the request body that starts a goal."""
    source: dict[str, Any]
    if wanted.flow is not None:
        source = {"flow": wanted.flow, "args": read_arguments(wanted.args)}
    elif wanted.plan is not None:
        source = {"plan": _text(read_file(wanted.plan, _LARGEST_PLAN), str(wanted.plan))}
    elif wanted.text is not None:
        given = {"text": wanted.text, "bot": wanted.bot, "model": wanted.model}
        source = {name: value for name, value in given.items() if value is not None}
    elif wanted.shell is not None:
        source = {"command": wanted.shell, "shell": True}
    else:
        source = {"command": list(wanted.argv or ())}
    policy = policy_wire(wanted.policy)
    source |= {} if policy is None else {"policy": policy}
    return {**source, "tags": list(wanted.tags), "limits": limits_wire(limits)}


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{where} is not text in UTF-8: {error.reason} at byte {error.start}.") from error
