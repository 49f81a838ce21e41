"""Login sessions of browsers: what the cookie holds instead of the token.

A browser sends a cookie to every port of a host, so other servers of this machine may read it. What they can read must
not be the token, which is valid until it is rotated and at every port: it is a random id that is valid at one port,
expires, and ends with a logout or with a new token.
"""

import hashlib
import os
import re
from contextvars import ContextVar
from pathlib import Path

from perdure.interfaces.api.auth.tickets import Tickets

LASTS_S = 7 * 24 * 3600.0
MOST = 64
FOLDER = "login-sessions"
_FORM = re.compile("[A-Za-z0-9_-]{43}")

SESSION: ContextVar[str | None] = ContextVar("perdure_session", default=None)
"""The session that this request was authenticated by; None when it was the token."""


def cookie_name(home: Path, port: int) -> str:
    """Return the name of the cookie, by port and home: cookies of other servers on this host are not replaced."""
    tag = hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:8]
    return f"perdure_{port}_{tag}"


def is_session_form(value: str) -> bool:
    """Tell whether a text could be the id of a session, without reading the disk."""
    return _FORM.fullmatch(value) is not None


def sessions_of(home: Path, cookie: str) -> Tickets:
    """Return the sessions of one home at one port."""
    return Tickets(home / FOLDER, cookie, LASTS_S, MOST)
