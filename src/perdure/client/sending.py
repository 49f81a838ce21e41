"""Validates and encodes the parts of a request: JSON bodies, ids in paths, headers."""

import re
from typing import Any
from urllib.parse import quote

from perdure.errors import Invalid, NotFound
from perdure.text.storable import flaw_in
from perdure.text.strict_json import dump_json

_VISIBLE = re.compile(r"[!-~]+")


def to_json(value: Any) -> bytes:
    """Return a value as JSON.

    Raises: Invalid for values that JSON does not support: NaN, lone surrogates, objects, recursive lists.
    """
    try:
        return dump_json(value, "The value")
    except Invalid as error:
        raise Invalid(f"{error.detail} Nothing was sent.") from error


def one_step(name: str) -> str:
    """Return an id, escaped to one segment of a path.

    Raises: Invalid when it is not text.
    """
    if not isinstance(name, str):
        raise Invalid(f"An id must be text, not {type(name).__name__}. Nothing was sent.")
    if flaw := flaw_in(name, allows_nul=True):
        raise Invalid(f"Invalid id {name[:80]!r}: it contains {flaw}. Nothing was sent.")
    step = quote(name, safe="")
    return step if step.strip(".") else step.replace(".", "%2E")


def plain_step(name: str) -> str:
    """Return an id as one segment of a path; a slash is rejected, because a server would decode it to two segments.

    Raises: NotFound when no id can have that form; Invalid when it is not text.
    """
    step = one_step(name)
    if not name or "/" in name:
        raise NotFound(f"No object has the id {name[:80]!r}: an id is not empty and contains no slash.")
    return step


def steps(name: str) -> str:
    """Return the name of a file as segments of a path, with `.` and `..` escaped.

    Raises: Invalid when it is not text.
    """
    return "/".join(map(one_step, name.split("/"))) if isinstance(name, str) else one_step(name)


def require_header(name: str, value: str) -> str:
    """Return the value of a header.

    Raises: Invalid, without repeating the value, which may be a secret.
    """
    if not isinstance(value, str) or not _VISIBLE.fullmatch(value):
        raise Invalid(f"{name} must consist of visible ASCII characters, without spaces. Nothing was sent.")
    return value
