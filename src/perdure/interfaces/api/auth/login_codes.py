"""One-time codes, which a browser exchanges for a login session.

Every process that can read the token can make one, for all servers of the home, and two servers never accept the same
one.
"""

from pathlib import Path

from perdure.interfaces.api.auth.access import read_token
from perdure.interfaces.api.auth.tickets import Tickets

LASTS_S = 600.0
_FOLDER = "login-codes"
_MOST = 16


def login_url(server: str, home: Path) -> str:
    """Return a URL that logs a browser in at a server of this home, once, within ten minutes.

    Raises: as `new_code`.
    """
    return f"{server}/login?code={new_code(home)}"


def new_code(home: Path) -> str:
    """Make a code; of many unused ones, the oldest is removed.

    Raises: Damaged or Denied when there is no token, or the home cannot be written to.
    """
    return _codes(home).issue(read_token(home))


def spend_code(home: Path, given: str, token: str) -> bool:
    """Use up a code; false when it is unknown, too old, used before, or was made under another token."""
    return _codes(home).revoke(given, token)


def revoke_codes(home: Path) -> None:
    """Remove all codes: a token that is restored must not make them valid again."""
    _codes(home).revoke_all()


def _codes(home: Path) -> Tickets:
    return Tickets(home / _FOLDER, "code", LASTS_S, _MOST)
