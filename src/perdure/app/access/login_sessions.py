"""Login sessions of browsers: a cookie contains the id of a session instead of the token.

A browser sends a cookie to every port of a host, so other servers of this machine may read it. The cookie must not
contain the token, which is valid at every port until it is rotated. It contains a random id that is valid at one port,
expires, and ends with a logout or a new token.
"""

import re
from pathlib import Path

from perdure.app.access.tickets import LOGIN_SESSIONS, Tickets
from perdure.app.access.token import CurrentToken
from perdure.errors import Denied

LASTS_S = 7 * 24 * 3600.0
MOST = 64
_FORM = re.compile("[A-Za-z0-9_-]{43}")


class LoginSessions:
    """The login sessions of a home for one purpose, such as one port; none is valid without a token."""

    def __init__(self, home: Path, purpose: str, token: CurrentToken) -> None:
        self._tickets = Tickets(home / LOGIN_SESSIONS, purpose, LASTS_S, MOST)
        self._token = token

    def open(self, replaced: str | None = None) -> str:
        """Open a session, return its id, and end the session that it replaces.

        Raises: Denied when the token cannot be read, or the home cannot be written to; Unavailable.
        """
        token = self._token.read()
        if token is None:
            raise Denied("The token of this home cannot be read.")
        opened = self._tickets.issue(token)
        if replaced is not None:
            self._tickets.revoke(replaced, token)
        return opened

    def is_open(self, given: str) -> bool:
        """Return whether this is the id of an open session."""
        if not _FORM.fullmatch(given):  # without reading the disk
            return False
        token = self._token.read()
        return token is not None and self._tickets.is_valid(given, token)

    def end(self, session: str) -> None:
        """End a session."""
        token = self._token.read()
        if token is not None:
            self._tickets.revoke(session, token)
