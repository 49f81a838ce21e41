"""The port of a wire format: how a request is read, and how an answer is written."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from perdure.testing.model_server.answers import ScriptedAnswer
from perdure.testing.model_server.incoming import IncomingRequest


@dataclass(frozen=True)
class Event:
    """One server-sent event; a delta is a part of the answer."""

    data: Mapping[str, Any] | str
    name: str = ""
    is_delta: bool = False

    def encoded(self) -> bytes:
        text = self.data if isinstance(self.data, str) else json.dumps(self.data)
        head = f"event: {self.name}\n" if self.name else ""
        return f"{head}data: {text}\n\n".encode()


class WireFormat(Protocol):
    """How requests and answers of one API of models are written as JSON."""

    def read(self, body: Mapping[str, Any], size_bytes: int) -> IncomingRequest:
        """Parse a request."""
        ...

    def events(self, answer: ScriptedAnswer, request: IncomingRequest, number: int) -> Iterable[Event]:
        """Write an answer as a stream; `number` makes its identifiers unique."""
        ...

    def complete(self, answer: ScriptedAnswer, request: IncomingRequest, number: int) -> Mapping[str, Any]:
        """Write an answer as one object."""
        ...

    def error(self, kind: str, message: str) -> Mapping[str, Any]:
        """Write the body of an error."""
        ...

    def error_event(self, kind: str, message: str) -> Event:
        """Write an error that is reported within a stream."""
        ...


ERROR_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def error_type(status: int) -> str:
    """Return the type that providers give an error with this status."""
    return ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


def text_of(content: object) -> str:
    """Return the text of the content of a message: a text, or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, Mapping)]
    return "".join(text for text in texts if isinstance(text, str))


def items(value: object) -> list[Mapping[str, Any]]:
    """Return the objects of a list; an empty list for any other value."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def request_of(body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> IncomingRequest:
    """Return the fields that all wire formats have; `kinds` has `user`, `model` or `other` for each message."""
    users = [text_of(each.get("content")) for each, kind in zip(messages, kinds, strict=True) if kind == "user"]
    total, since_user = _turns(kinds)
    return IncomingRequest(
        model=str(body.get("model", "")),
        is_streamed=body.get("stream") is True,
        last_user=users[-1] if users else "",
        turns=total,
        turns_since_user=since_user,
    )


def _turns(kinds: Sequence[str]) -> tuple[int, int]:
    """Count the answers of a model in a conversation: all of them, and those since the last user message.

    Successive messages of the model are one answer.
    """
    starts = [kind == "model" and (place == 0 or kinds[place - 1] != "model") for place, kind in enumerate(kinds)]
    last_user = max((place for place, kind in enumerate(kinds) if kind == "user"), default=-1)
    return sum(starts), sum(starts[last_user + 1 :])
