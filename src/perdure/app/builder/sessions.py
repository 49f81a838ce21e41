"""Views and ids of sessions of Forge."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from perdure.errors import Conflict, Damaged, NotFound, Over
from perdure.forge.drafts import damaged
from perdure.forge.interview.finish import preview, shown_turn
from perdure.forge.ports import BuilderMode, BuilderPhase
from perdure.forge.state import BuilderState, Exchange
from perdure.forge.turns import BuilderTurn, Preview
from perdure.forge.vocabulary import EngineName

if TYPE_CHECKING:
    from perdure.app.wire.resources import builder as wire

SESSION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class SessionView:
    """A session as every surface shows it, with its pending turn."""

    session_id: str
    mode: BuilderMode
    phase: BuilderPhase
    initial_description: str
    question_count: int
    revision: int
    turn: BuilderTurn
    preview: Preview
    """The known parts of the bot, whatever the turn is."""
    engine: EngineName = "builtin"
    """The engine that leads the interview."""
    conversation: tuple[Exchange, ...] = ()
    """The questions and answers so far."""
    earlier: tuple[Exchange, ...] = ()
    """The answers to questions that are open again because the person went back."""

    def turn_wire(self) -> "wire.Turn":
        """Return the one JSON form of the pending turn."""
        return cast("wire.Turn", self.turn.model_dump(mode="json", by_alias=True))

    def new_wire(self) -> "wire.NewSession":
        """Return the one JSON form of a session that was just started."""
        return {"session_id": self.session_id, "mode": self.mode, "turn": self.turn_wire()}

    def next_wire(self) -> "wire.NextTurn":
        """Return the one JSON form of the turn after an answer."""
        progress: wire.SessionProgress = {"phase": self.phase, "question_count": self.question_count}
        return {"turn": self.turn_wire(), "state_summary": progress}

    def wire(self) -> "wire.Session":
        """Return the one JSON form of a session."""
        return {
            **self.new_wire(),
            "phase": self.phase,
            "initial_description": self.initial_description,
            "question_count": self.question_count,
            "revision": self.revision,
            "engine": self.engine,
            "preview": cast("wire.Preview", self.preview.model_dump(mode="json")),
            "conversation": _wire_of(self.conversation),
            "earlier": _wire_of(self.earlier),
        }


class SessionOver(Over):
    """The session has built its bot and has ended."""

    def __init__(self, session_id: str, slug: str, number: int) -> None:
        super().__init__(
            f"The interview of the draft {session_id} has ended: it made version {number} of the bot {slug}."
        )
        self.slug = slug


def stored_form(session_id: str) -> str:
    """Return a session id in its stored form: a UUID with hyphens, in lower case.

    Raises: NotFound when it is not a UUID, because no session has that id.
    """
    if not SESSION_ID.fullmatch(session_id.lower()):
        raise NotFound(f"No draft has the id {session_id[:60]!r}. `perdure draft list` shows the drafts.")
    return session_id.lower()


async def require_whole_session_id(given: str, find: Callable[[str], Awaitable[str]]) -> str:
    """Return the whole id of a draft to change, in its stored form; a prefix is rejected.

    Raises: NotFound, naming the only draft with that prefix, which `find` returns.
    """
    if SESSION_ID.fullmatch(given.lower()):
        return given.lower()
    try:
        hint = f" Did you mean {await find(given)}?"
    except (NotFound, Conflict, Damaged):
        hint = ""
    raise NotFound(f"No draft has the id {given[:60]!r}.{hint} Commands that change a draft need the whole id.")


def session_view(state: BuilderState, revision: int) -> SessionView:
    """Return the view of a session.

    Raises: Damaged when the session has no pending turn.
    """
    if state.pending_turn is None:
        raise damaged(state.session_id, "It has no pending turn.")
    return SessionView(
        preview=preview(state),
        session_id=state.session_id,
        mode=state.mode,
        phase=state.phase,
        initial_description=state.initial_description,
        question_count=state.question_count,
        revision=revision,
        turn=shown_turn(state),
        engine=state.engine,
        conversation=state.conversation,
        earlier=state.earlier,
    )


def _wire_of(exchanges: Sequence[Exchange]) -> "list[wire.Said]":
    return [cast("wire.Said", each.model_dump(mode="json")) for each in exchanges]
