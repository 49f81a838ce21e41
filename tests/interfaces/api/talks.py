"""Interviews through a client, for tests that need a bot or a session at a certain place."""

from typing import Any

from perdure.app.wire.resources.builder import AssemblyResult
from perdure.client import Client, Turn

CODING = 'a coding assistant called "Ada" that reviews Python'
ASKING = "I want a coding assistant"
"""After this a question comes first."""
FIRST = {"option_index": 0}


def answer_to(turn: Turn) -> dict[str, Any]:
    """What somebody says who takes the first option, and likes what is shown."""
    match turn["action"]:
        case "ask_question":
            return FIRST
        case "clarify":
            return {"free_text": CODING}
        case _:
            return {"confirm": True}


async def ready(client: Client, description: str = CODING) -> str:
    """Answer everything, and return the id of the session."""
    session = await client.builder.start(description)
    return await finished(client, session["session_id"], session["turn"])


async def finished(client: Client, session_id: str, turn: Turn) -> str:
    while turn["action"] != "ready_to_assemble":
        turn = (await client.builder.answer(session_id, answer_to(turn)))["turn"]
    return session_id


async def built(client: Client, description: str = CODING) -> AssemblyResult:
    """Build a bot, and return what the server says of it."""
    return await client.builder.assemble(await ready(client, description))
