"""Slugs: names of bots that are safe as part of a path."""

import hashlib
import re
import unicodedata
from collections.abc import Iterator

from perdure.errors import Invalid

LONGEST_SLUG = 64
_LONGEST_BEGINNING = 48
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DEVICES = re.compile(r"con|prn|aux|nul|com[0-9]|lpt[0-9]")
"""Names that Windows reserves for devices in every folder."""

BUILT_IN_BOT = "assistant"
"""The slug of the built-in bot, which has no folder: other bots cannot have this slug."""


def require_slug(slug: str) -> str:
    """Return a slug that is safe as the name of a folder on every system.

    Raises: Invalid
    """
    if len(slug) > LONGEST_SLUG or not _SLUG.fullmatch(slug) or is_device(slug):
        raise Invalid(
            f"{slug[:80]!r} is not a valid slug. Expected lower-case letters, digits and single hyphens between them,"
            f" at most {LONGEST_SLUG} characters."
        )
    return slug


def is_device(name: str) -> bool:
    """Return whether a system reserves a name for a device."""
    return _DEVICES.fullmatch(name) is not None


def slug_of(name: str, kind: str = "bot") -> str:
    """Return a slug for any text, made from its ASCII letters and digits.

    If other letters are lost, a hash of the text is appended. If nothing is left, the slug begins with `kind`.
    """
    plain = unicodedata.normalize("NFKD", name.casefold())
    words = re.findall(r"[a-z0-9]+", "".join(char for char in plain if not unicodedata.combining(char)))
    slug = "-".join(words)[:_LONGEST_BEGINNING].strip("-")
    is_lossy = any(char.isalnum() and not char.isascii() for char in plain)
    if is_lossy or not slug:
        slug = f"{slug or kind}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:6]}"
    return f"{kind}-{slug}" if is_device(slug) or slug == BUILT_IN_BOT else slug


def slugs_for(name: str) -> Iterator[str]:
    """Yield the slugs for a name in order of preference: `ada`, `ada-2`, `ada-3` and so on."""
    first = slug_of(name)
    yield first
    number = 2
    while True:
        yield f"{first}-{number}"
        number += 1
