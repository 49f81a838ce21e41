"""What is about to be sent: values as JSON, ids as steps of a path, headers. What cannot be sent is refused here."""

import re
from typing import Any
from urllib.parse import quote

from perdure.errors import Invalid, NotFound
from perdure.text.storable import flaw_in
from perdure.text.strict_json import dump_json

_VISIBLE = re.compile(r"[!-~]+")


def to_json(value: Any) -> bytes:
    """Write a value as JSON.

    Raises: Invalid when it has no such form: NaN, half a surrogate pair, an object, a list within itself.
    """
    try:
        return dump_json(value, "What was given")
    except Invalid as error:
        raise Invalid(f"{error.detail} Nothing was sent.") from error


def one_step(name: str) -> str:
    """Return an id as one step of a path, whatever it looks like.

    Raises: Invalid when it is not text.
    """
    if not isinstance(name, str):
        raise Invalid(f"An id must be text, not {type(name).__name__}. Nothing was sent.")
    if flaw := flaw_in(name, allows_nul=True):
        raise Invalid(f"{name[:80]!r} is not an id: it contains {flaw}. Nothing was sent.")
    step = quote(name, safe="")
    return step if step.strip(".") else step.replace(".", "%2E")


def plain_step(name: str) -> str:
    """Return an id, which has no slash, as one step of a path: a server would take it for two.

    Raises: NotFound when nothing can have that id; Invalid when it is not text.
    """
    step = one_step(name)
    if not name or "/" in name:
        raise NotFound(f"There is nothing with the id {name[:80]!r}.")
    return step


def steps(name: str) -> str:
    """Return the name of a file as steps of a path; none of them leads up again.

    Raises: Invalid when it is not text.
    """
    return "/".join(map(one_step, name.split("/"))) if isinstance(name, str) else one_step(name)


def require_header(name: str, value: str) -> str:
    """Return what can be sent in a header.

    Raises: Invalid; the message does not repeat what was given, which may be a secret.
    """
    if not isinstance(value, str) or not _VISIBLE.fullmatch(value):
        raise Invalid(f"{name} must be letters, digits and signs of ASCII, without blanks. Nothing was sent.")
    return value
