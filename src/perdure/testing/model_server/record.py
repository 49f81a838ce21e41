"""The requests that a server has received, and their outcomes."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal["open", "answered", "failed", "cut", "hung_up"]


@dataclass
class RecordedRequest:
    """One request: `answered` when a complete answer was sent, `hung_up` when the client left before that."""

    number: int
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any] = field(repr=False)
    sha256: str
    outcome: Outcome = "open"

    def wire(self) -> dict[str, Any]:
        """Return the request as JSON; its headers are left out, because a key is in them."""
        return {
            "number": self.number,
            "path": self.path,
            "sha256": self.sha256,
            "outcome": self.outcome,
            "body": dict(self.body),
        }


def digest(path: str, body: bytes) -> str:
    """Return a digest that is equal for equal requests."""
    return hashlib.sha256(path.encode() + b"\n" + body).hexdigest()


def repeated_requests(requests: Iterable[RecordedRequest]) -> list[str]:
    """Return the digests of requests that were answered completely more than once."""
    counts = Counter(each.sha256 for each in requests if each.outcome == "answered")
    return [sha256 for sha256, count in counts.items() if count > 1]
