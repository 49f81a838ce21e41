"""Time, ids and random numbers for a flow: the same in every run of a goal, without events.

They are derived from the history. Up to the fork point, a fork gets the same values as the other goal, because the
recorded steps have them in their arguments; after it, the fork gets values of its own.
"""

from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from perdure.kernel.fold import Origin
from perdure.minds.flow.requests import Branch

if TYPE_CHECKING:
    from perdure.minds.flow.mind import FlowMind

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMESPACE = UUID("8f0c6b0e-6f0b-4f8e-9a57-3d1f3f6e2c41")


def time_of(mind: "FlowMind") -> datetime:
    """Return the time of the event that the flow reacts to. See `Goal.now`.

    Raises: Invalid outside of the flow.
    """
    origin = _origin(mind, mind.branch("goal.now"))
    return _EPOCH + timedelta(microseconds=max(mind.now_us, origin.created_us))


def next_uuid(mind: "FlowMind") -> UUID:
    """Return a unique id. See `Goal.uuid`.

    Raises: Invalid outside of the flow.
    """
    return uuid5(_NAMESPACE, _draw(mind, "uuid"))


def next_random(mind: "FlowMind") -> Random:
    """Return a generator with a unique seed. See `Goal.random`.

    Raises: Invalid outside of the flow.
    """
    seed = blake2b(_draw(mind, "random").encode(), digest_size=16).digest()
    return Random(int.from_bytes(seed))


def _draw(mind: "FlowMind", what: str) -> str:
    """Return a name for the next call of a kind in a branch; no other call of any goal has the same name."""
    branch = mind.branch(f"goal.{what}")
    branch.draws[what] += 1
    return f"{_origin(mind, branch).goal_id}/{branch.name}/{what}/{branch.draws[what]}"


def _origin(mind: "FlowMind", branch: Branch) -> Origin:
    """Return the goal that made, or makes, this call: the one that recorded the next step of the branch."""
    origins = mind.origins
    ahead = mind.ahead(branch) if len(origins) > 1 else None
    return next((each for each in reversed(origins) if ahead is None or each.seq <= ahead), origins[0])
