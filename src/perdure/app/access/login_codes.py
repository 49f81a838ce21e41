"""One-time codes, which a browser exchanges for a login session.

Every process that can read the token can create a code, for all servers of the home. A code is accepted once, by one of
them.
"""

from pathlib import Path

from perdure.app.access.tickets import LOGIN_CODES, Tickets
from perdure.app.access.token import read_token

LASTS_S = 600.0
_MOST = 16


def login_url(server: str, home: Path) -> str:
    """Return a URL that logs a browser in at a server of this home; it works once, for ten minutes.

    Raises: as `new_code`.
    """
    return f"{server}/login?code={new_code(home)}"


def new_code(home: Path) -> str:
    """Create a code; with too many unused codes, the oldest is removed.

    Raises: Damaged or Denied when the token cannot be read, or the home cannot be written to.
    """
    return _codes(home).issue(read_token(home))


def spend_code(home: Path, given: str, token: str) -> bool:
    """Spend a code; return false if it is unknown, expired, spent, or was created under another token."""
    return _codes(home).revoke(given, token)


def _codes(home: Path) -> Tickets:
    return Tickets(home / LOGIN_CODES, "code", LASTS_S, _MOST)
