"""The token of a home: reads, creates and rotates it."""

import hmac
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from perdure.app.access.tickets import revoke_all_tickets
from perdure.errors import Damaged, PerdureError, from_os_error
from perdure.files.atomic import PartFile, part_file
from perdure.files.folders import ensure_folder
from perdure.files.opening import open_file

TOKEN_FILE = "token"  # noqa: S105 (the name of the file, not what is in it)
_TOKEN_BYTES = 32
_LONGEST_FILE = 1024


def read_token(home: Path) -> str:
    """Return the token of a home; it is created if it does not exist.

    Raises: Damaged when the file does not contain a token; Denied.
    """
    try:
        return _read(home / TOKEN_FILE)
    except FileNotFoundError:
        return _first_token(home)


def _read(path: Path) -> str:
    """Return the token in a file, without blocking if the path is a pipe.

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
        raise Damaged(f"{path} does not contain a token. `perdure token rotate` creates a new one.")
    return token


def rotate_token(home: Path) -> str:
    """Create a new token; the old one, all login codes and all login sessions become invalid.

    Raises: Denied
    """
    token = _write_token(home, PartFile.replace)
    revoke_all_tickets(home)  # they are invalid already; a restored old token must not make them valid again
    return token


def _first_token(home: Path) -> str:
    """Create the first token; if another process creates one at the same time, return that one."""
    try:
        return _write_token(home, PartFile.publish)
    except FileExistsError:
        pass
    try:
        return _read(home / TOKEN_FILE)
    except FileNotFoundError:
        raise Damaged(
            f"{home / TOKEN_FILE} is a broken symbolic link. `perdure token rotate` creates a new token."
        ) from None


def _write_token(home: Path, place: Callable[[PartFile], None]) -> str:
    """Write a new token to its file atomically, and return it."""
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
    """Return a value that changes whenever a file changes; None if there is no file."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


class CurrentToken:
    """The current token of a home: the file is read again when it changes, so a rotation takes effect at once."""

    def __init__(self, home: Path) -> None:
        self._path = home / TOKEN_FILE
        self._token: str | None = None
        self._seen: tuple[int, ...] | None = None

    def read(self) -> str | None:
        """Return the token; None if it cannot be read. It is not created here, so a moved home stays absent."""
        seen = _signature(os.fspath(self._path))
        if seen is None or seen != self._seen:
            try:
                self._token = _read(self._path)
            except (FileNotFoundError, PerdureError):
                self._token = None
            self._seen = seen
        return self._token

    def matches(self, given: str) -> bool:
        """Compare a value with the token in constant time; false if the token cannot be read."""
        token = self.read()
        return token is not None and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
