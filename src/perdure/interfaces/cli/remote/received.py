"""Parses responses of a server about Forge and bots for the commands that show them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from perdure.app.builder.sessions import SessionView
from perdure.app.builder.values import BuilderTurn, Exchange, Preview
from perdure.app.builder.vocabulary import BuilderMode, BuilderPhase
from perdure.errors import Unavailable

if TYPE_CHECKING:
    from perdure.app.wire.resources import builder as wire

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)
_TURN: TypeAdapter[BuilderTurn] = TypeAdapter(BuilderTurn)


@dataclass(frozen=True)
class Received(Generic[T]):
    """A JSON object exactly as the server sent it. See Shown."""

    received: T

    def wire(self) -> T:
        """See Shown.wire."""
        return self.received


@dataclass(frozen=True)
class ReceivedSession(SessionView):
    """A session of a server; its JSON form is the response of the server."""

    received: Any = field(default=None, repr=False)

    def wire(self) -> "wire.Session":
        """See SessionView.wire."""
        session: wire.Session = self.received
        return session


def read_as(model: type[Model], sent: Mapping[str, Any]) -> Model:
    """Parse an object of one of Forge's classes; fields added by a newer server are ignored.

    Raises: Unavailable when the object does not fit the class.
    """
    try:
        return model.model_validate(sent, extra="ignore")
    except ValidationError as error:
        raise _unreadable(error) from error


def read_session(session: "wire.Session") -> ReceivedSession:
    """Parse a session with its pending turn.

    Raises: Unavailable when the session or its turn is not understood.
    """
    try:
        turn, mode, phase = (
            _TURN.validate_python(session["turn"], extra="ignore"),
            BuilderMode(session["mode"]),
            BuilderPhase(session["phase"]),
        )
    except ValueError as error:  # pydantic's own error is one
        raise _unreadable(error) from error
    return ReceivedSession(
        session_id=session["session_id"],
        mode=mode,
        phase=phase,
        initial_description=session["initial_description"],
        question_count=session["question_count"],
        revision=session["revision"],
        turn=turn,
        preview=read_as(Preview, session["preview"]),
        conversation=tuple(read_as(Exchange, said) for said in session["conversation"]),
        earlier=tuple(read_as(Exchange, said) for said in session.get("earlier", ())),  # an older server sends none
        received=session,
    )


def _unreadable(error: ValueError) -> Unavailable:
    """Return the error for an object that this version cannot parse."""
    first_line = str(error.errors()[0]["loc"]) if isinstance(error, ValidationError) else str(error)
    return Unavailable(
        f"This version of Perdure cannot read the response of the server: {first_line}. Use the server's version."
    )
