"""Goals that a command starts, resumes or retries at a server."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.app.wire.goal_view import GoalView
from perdure.errors import Invalid
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.files import read_file
from perdure.interfaces.cli.goals.run_ui.flows import arguments
from perdure.interfaces.cli.goals.run_ui.run_ui import Showing
from perdure.interfaces.cli.remote.following import run_at_server
from perdure.interfaces.cli.remote.goals import ServerGoals, limits_wire, policy_wire
from perdure.kernel.events import Limits

if TYPE_CHECKING:
    from perdure.interfaces.cli.goals.run import Wanted

_LARGEST_PLAN = 500_000


def require_for_server(given: Mapping[str, bool]) -> None:
    """Refuse options that mean a run in this process.

    Raises: Invalid
    """
    for name, is_given in given.items():
        if is_given:
            raise Invalid(f"{name} is for goals that run in this process; with a server, leave it out.")


async def start_at_server(showing: Showing, url: str, wanted: "Wanted", limits: Limits) -> Answer:
    """Start a goal at a server, and follow it; with a key, once.

    Raises: Invalid; NotFound when there is no such plan; Denied when the server does not allow the flow; what
    `run_at_server` raises.
    """
    body = _body(wanted, limits)

    async def start(goals: ServerGoals) -> tuple[GoalView, int]:
        return await goals.start(body, key=wanted.key), 0

    return await run_at_server(showing, url, start)


async def resume_at_server(
    showing: Showing, url: str, name: str | None, limits: Limits, *, after: int | None = None
) -> Answer:
    """Resume a goal at a server, and follow it from where it stood; one that runs there, or has ended, is followed.

    `after` is the last event that was seen, if that was before this call.

    Raises: NotFound; Conflict; Invalid; what `run_at_server` raises.
    """
    if name is None:
        raise Invalid("With a server, give the id of the goal: it does not know the current folder.")

    async def start(goals: ServerGoals) -> tuple[GoalView, int]:
        found = await goals.get(name)
        is_kept = found.is_final or found.is_running or found.is_queued
        resumed = found if is_kept and limits == Limits() else await goals.resume(found.id, limits)
        seen = 0 if found.is_final else found.summary.last_seq
        return resumed, seen if after is None else after

    return await run_at_server(showing, url, start)


async def retry_at_server(  # noqa: PLR0913 (each is an option of the command)
    showing: Showing, url: str, name: str, limits: Limits, *, reason: str | None, key: str | None, policy: str | None
) -> Answer:
    """Retry a failed goal at a server, and follow it from where it had ended.

    Raises: NotFound; Conflict; Invalid; what `run_at_server` raises.
    """

    async def start(goals: ServerGoals) -> tuple[GoalView, int]:
        found = await goals.get(name)
        return await goals.retry(found.id, limits, reason=reason, key=key, policy=policy), found.summary.last_seq

    return await run_at_server(showing, url, start)


def _body(wanted: "Wanted", limits: Limits) -> dict[str, Any]:
    """Return what is sent to start a goal."""
    what: dict[str, Any]
    if wanted.flow is not None:
        what = {"flow": wanted.flow, "args": arguments(wanted.args)}
    elif wanted.plan is not None:
        what = {"plan": _text(read_file(wanted.plan, _LARGEST_PLAN), str(wanted.plan))}
    else:
        what = {"text": wanted.text or "", "shell": wanted.is_shell}
    policy = policy_wire(wanted.policy)
    what |= {} if policy is None else {"policy": policy}
    return {**what, "tags": list(wanted.tags), "limits": limits_wire(limits)}


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{where} is not text in UTF-8: {error.reason} at byte {error.start}.") from error
