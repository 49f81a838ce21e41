"""The access rules of a server: its token, login sessions, hosts and origins."""

import hashlib
import os
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path

from perdure.app.access.login_sessions import LoginSessions
from perdure.app.access.token import CurrentToken

LOCAL = ("127.0.0.1", "localhost", "[::1]")
_PORT_OF_HTTP = 80

SESSION: ContextVar[str | None] = ContextVar("perdure_session", default=None)
"""The login session that authenticated this request; None for the token."""


class ServerAccess:
    """The token, sessions, hosts and origins of one server."""

    def __init__(self, home: Path, port: int, names: Sequence[str] = LOCAL) -> None:
        self.home = home
        self.port = port
        plain = [name.lower() for name in names]
        without_port = plain if port == _PORT_OF_HTTP else []
        self.hosts = frozenset([f"{name}:{port}" for name in plain] + without_port)
        """The accepted Host headers: names and addresses with the port, which clients omit if it is 80."""
        self.origins = frozenset(f"http://{host}" for host in self.hosts)
        self.cookie = _cookie_name(home, port)
        self.token = CurrentToken(home)
        self.sessions = LoginSessions(home, self.cookie, self.token)


def _cookie_name(home: Path, port: int) -> str:
    """Return the name of the cookie, which has port and home, so that servers on one host do not share cookies."""
    tag = hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:8]
    return f"perdure_{port}_{tag}"
