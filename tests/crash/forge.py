"""One turn of an interview in a child that is killed: what it finds, what it says, and where it dies."""

import os
import signal
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from perdure import Perdure, failpoints
from perdure.store.builder.drafts import SqlBuilderDraftStore

Moment = Literal["acknowledged", "store.commit.before", "store.commit.after"]
MOMENTS: tuple[Moment, ...] = ("acknowledged", "acknowledged", "store.commit.before", "store.commit.after")
"""Most die when they have told of a turn; some around the commit, before anybody was told."""


async def take_turn(
    home: Path, url: str, session_id: str, said: tuple[str, Any], moment: Moment, pipe: Connection
) -> None:
    """Start a session, or tell what is there and answer it; then die."""
    async with Perdure.open(home, database_url=url) as p:
        kind, value = said
        if kind == "answer":
            shown = await p.forge.get(session_id)
            kept = await SqlBuilderDraftStore(p.database).load_draft(session_id)
            pipe.send((shown.wire(), kept.state_json, kept.revision))
        with ExitStack() as stack:
            if moment != "acknowledged":
                stack.enter_context(failpoints.armed(moment, die))
            if kind == "answer":
                view = await p.forge.answer(session_id, value)
            else:
                view = await p.forge.start(value, session_id=session_id)
            pipe.send(view.wire())
        die()


def die() -> None:
    """Kill this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)
