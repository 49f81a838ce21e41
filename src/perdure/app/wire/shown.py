"""What a person sees of a call before approving it, and the hash that binds an approval to it."""

import hashlib
from typing import TYPE_CHECKING

import orjson

from perdure.errors import Conflict, Invalid
from perdure.kernel.events import Decision, ToolCall
from perdure.kernel.fold import GoalState

if TYPE_CHECKING:
    from perdure.app.wire.resources.goals import ShownCall


def shown_of(state: GoalState, call_id: str) -> "ShownCall | None":
    """Return what is shown of a call that waits for approval; None for any other call.

    There is no sandbox yet: the tool has the network of its worker, and `network`, `sandbox` and `secrets` say nothing.
    """
    call = state.open_calls.get(call_id)
    if call is None or not call.awaits_approval or not isinstance(call.call, ToolCall):
        return None
    shown: ShownCall = {
        "tool": call.call.tool,
        "arguments": call.call.arguments,
        "effect": call.call.effect,
        "workdir": state.begun.workdir,
        "network": None,
        "sandbox": None,
        "secrets": [],
    }
    return shown


def shown_sha256(state: GoalState, call_id: str) -> str | None:
    """Return the hash of what is shown of a call that waits for approval; None for any other call."""
    shown = shown_of(state, call_id)
    return None if shown is None else sha256_of(shown)


def sha256_of(shown: "ShownCall") -> str:
    """Return the SHA-256 of the canonical JSON: keys sorted, no spaces, UTF-8."""
    return hashlib.sha256(orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)).hexdigest()


def require_hash(decision: str, given: str | None) -> None:
    """Check that an approval names what was shown.

    Raises: Invalid
    """
    if decision == "approve" and given is None:
        raise Invalid(
            "`shown_sha256` is missing. `approve` requires it; `GET /approvals` returns it. Nothing was recorded."
        )


def require_shown(state: GoalState, chosen: Decision, given: str | None) -> None:
    """Check that a decision is about the call that was shown; without a hash, it is not checked.

    Raises: Conflict
    """
    now = None if given is None else shown_sha256(state, chosen.call_id)
    if now != given:
        raise Conflict(
            f"`shown_sha256` does not match call {chosen.call_id} of {state.goal_id}. Read the call again"
            " (`GET /approvals`). Nothing was recorded."
        )
