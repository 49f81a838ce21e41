"""A typed client of the API: the same use cases from another process or machine.

    async with Client("http://127.0.0.1:8733", token) as client:
        goal = await client.goals.create(command=["echo", "hello"])
        async for event in client.goals.follow(goal["id"]):
            print(event["seq"], event["type"])

`client` has the entry point, `connection` and `sockets` the transport, `sending` the validation of requests, and
`goals`, `conversations`, `builder` (with its `chat`), `bots` and `memory` the calls. May import: errors, statuses,
text, the parameters of `perdure.app.wire.resources`, and its other modules for types only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from perdure.client.client import Client

if TYPE_CHECKING:
    from perdure.app.wire.resources.builder import Session, Turn
    from perdure.app.wire.resources.events import Event
    from perdure.app.wire.resources.frames import CallProgress
    from perdure.app.wire.resources.goals import Goal, GoalDetail

__all__ = ["CallProgress", "Client", "Event", "Goal", "GoalDetail", "Session", "Turn"]

_RESOURCES = {
    "CallProgress": "frames",
    "Event": "events",
    "Goal": "goals",
    "GoalDetail": "goals",
    "Session": "builder",
    "Turn": "builder",
}


def _resource(name: str) -> Any:
    """Import the type of a resource on demand, because the client itself does not need it."""
    if name not in _RESOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"perdure.app.wire.resources.{_RESOURCES[name]}"), name)


if not TYPE_CHECKING:
    __getattr__ = _resource  # hidden from type checkers, which would accept any name
