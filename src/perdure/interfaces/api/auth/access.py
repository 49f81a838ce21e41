"""Who may come in: the token, and the names we answer to."""

import hmac
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from perdure.errors import Damaged, Denied, PerdureError, from_os_error
from perdure.files.atomic import PartFile, part_file
from perdure.files.folders import ensure_folder
from perdure.files.opening import open_file
from perdure.interfaces.api.auth.login_sessions import cookie_name, is_session_form, sessions_of

TOKEN_FILE = "token"  # noqa: S105 (the name of the file, not what is in it)
_PORT_OF_HTTP = 80
LOCAL = ("127.0.0.1", "localhost", "[::1]")
_TOKEN_BYTES = 32
_LONGEST_FILE = 1024


def read_token(home: Path) -> str:
    """Return the token of a home; one is made where there is none.

    Raises: Damaged when the file holds something else; Denied.
    """
    try:
        return _read(home / TOKEN_FILE)
    except FileNotFoundError:
        return _first_token(home)


def _read(path: Path) -> str:
    """Return the token that a file holds; one that is no file, such as a pipe that nobody writes to, is not waited for.

    Raises: FileNotFoundError; Damaged; Denied.
    """
    try:
        with os.fdopen(open_file(path, follows_links=True), "rb") as file:
            held = file.read(_LONGEST_FILE) or b""
    except FileNotFoundError:
        raise
    except OSError as error:
        raise from_os_error(f"{path} cannot be read", error) from error
    token = held.strip().decode("ascii", "replace")
    if len(token) != 2 * _TOKEN_BYTES or not (token.isascii() and token.isalnum()):
        raise Damaged(f"{path} holds no token. `perdure token rotate` makes a new one.")
    return token


def rotate_token(home: Path) -> str:
    """Make a new token; the old one, and every login session, is invalid from now on.

    Raises: Denied
    """
    token = _write_token(home, PartFile.replace)
    sessions_of(home, "").revoke_all()  # they are invalid already; a restored old token must not make them valid again
    return token


def _first_token(home: Path) -> str:
    """Make a token where there is none; when somebody else is quicker, theirs counts."""
    try:
        return _write_token(home, PartFile.publish)
    except FileExistsError:
        pass
    try:
        return _read(home / TOKEN_FILE)
    except FileNotFoundError:
        raise Damaged(
            f"{home / TOKEN_FILE} is a link that leads nowhere. `perdure token rotate` makes a new token."
        ) from None


def _write_token(home: Path, place: Callable[[PartFile], None]) -> str:
    """Write a new token to its file, whole, and return it."""
    ensure_folder(home)
    token, path = secrets.token_hex(_TOKEN_BYTES), home / TOKEN_FILE
    try:
        with part_file(path) as part:
            part.write(f"{token}\n".encode())
            place(part)
    except FileExistsError:
        raise
    except OSError as error:
        raise from_os_error(f"{path} cannot be written", error) from error
    return token


def _signature(path: str) -> tuple[int, ...] | None:
    """Return what changes whenever a file does; None when there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


class Doors:
    """What the gate compares with; the token is read again and again, so that a rotated one counts at once."""

    def __init__(self, home: Path, port: int, names: Sequence[str] = LOCAL) -> None:
        self.home = home
        self._file = os.fspath(home / TOKEN_FILE)
        self._token: str | None = None
        self._seen: tuple[int, ...] | None = None
        self.port = port
        plain = [name.lower() for name in names]
        self.hosts = frozenset([f"{name}:{port}" for name in plain] + (plain if port == _PORT_OF_HTTP else []))
        """The names and addresses under which we may be called, with the port; clients leave out that of HTTP."""
        self.origins = frozenset(f"http://{host}" for host in self.hosts)
        self.cookie = cookie_name(home, port)
        self._sessions = sessions_of(home, self.cookie)

    def token(self) -> str | None:
        """Return the token, if there is one that can be read; its file is read when it is not the one of before."""
        seen = _signature(self._file)
        if seen is None or seen != self._seen:
            try:
                self._token = _read(self.home / TOKEN_FILE)  # none is made here: a home that was moved away stays away
            except (FileNotFoundError, PerdureError):
                self._token = None
            self._seen = seen
        return self._token

    def is_token(self, given: str) -> bool:
        """Compare in constant time; without a readable token nobody comes in."""
        token = self.token()
        return token is not None and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())

    def open_session(self, replaced: str | None = None) -> str:
        """Open a login session under a new id; the one that it replaces ends.

        Raises: Denied when there is no token, or the home cannot be written to; Unavailable.
        """
        token = self.token()
        if token is None:
            raise Denied("The token of this home cannot be read.")
        opened = self._sessions.issue(token)
        if replaced is not None:
            self._sessions.revoke(replaced, token)
        return opened

    def is_session(self, given: str) -> bool:
        """Tell whether a login session is open here; none is without a readable token."""
        if not is_session_form(given):
            return False
        token = self.token()
        return token is not None and self._sessions.is_valid(given, token)

    def end_session(self, session: str) -> None:
        """End a login session."""
        token = self.token()
        if token is not None:
            self._sessions.revoke(session, token)
