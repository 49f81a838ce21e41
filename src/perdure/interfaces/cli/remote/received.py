"""What a server has sent of Forge and bots, read back for the commands that show it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from perdure.app.builder.sessions import SessionView
from perdure.errors import Unavailable
from perdure.forge.state import Exchange
from perdure.forge.turns import BuilderTurn, Preview
from perdure.forge.vocabulary import BuilderMode, BuilderPhase

if TYPE_CHECKING:
    from perdure.app.wire.resources import builder as wire

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)
_TURN: TypeAdapter[BuilderTurn] = TypeAdapter(BuilderTurn)


@dataclass(frozen=True)
class Received(Generic[T]):
    """An object of the wire, as it was sent. See Shown."""

    received: T

    def wire(self) -> T:
        """See Shown.wire."""
        return self.received


@dataclass(frozen=True)
class ReceivedSession(SessionView):
    """A session as a server has sent it: its JSON form is what the server says."""

    received: Any = field(default=None, repr=False)

    def wire(self) -> "wire.Session":
        """See SessionView.wire."""
        session: wire.Session = self.received
        return session


def read_as(model: type[Model], sent: Mapping[str, Any]) -> Model:
    """Read an object that one of Forge's own classes defines; what a newer server adds to it is left out.

    Raises: Unavailable when it is of another form.
    """
    try:
        return model.model_validate(sent, extra="ignore")
    except ValidationError as error:
        raise _unreadable(error) from error


def read_session(session: "wire.Session") -> ReceivedSession:
    """Read a session with its pending turn.

    Raises: Unavailable when a turn is of another form.
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
        received=session,
    )


def _unreadable(error: ValueError) -> Unavailable:
    """Return the error for an object that this version does not know."""
    first_line = str(error.errors()[0]["loc"]) if isinstance(error, ValidationError) else str(error)
    return Unavailable(
        f"The server sent what this version of Perdure cannot read: {first_line}. Use the version of the server."
    )
