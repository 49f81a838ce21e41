"""A typed client of the API: the same use cases from another process or machine.

    async with Client("http://127.0.0.1:8733", token) as client:
        goal = await client.goals.create(text="echo hello")
        async for event in client.goals.follow(goal["id"]):
            print(event["seq"], event["type"])

`client` is the way in, `connection` what goes over the wire, `sending` what may go there, `goals`, `builder` (and its
`chat`), `bots` and `memory` what can be done, `shapes` what comes back. May import: errors alone.
"""

from perdure.client.client import Client
from perdure.client.shapes import Event, Goal, Session, Turn

__all__ = ["Client", "Event", "Goal", "Session", "Turn"]
