"""Secrets that a home has issued, such as login codes and sessions. Each is stored as an empty file.

The name of the file is a hash of the secret, keyed by the token: the folder does not reveal the secrets, and a new
token invalidates every earlier secret. A secret is revoked by removing its file, and its age is that of the file. Every
server of the home sees the same files.
"""

import hmac
import re
import secrets
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perdure.errors import Denied, from_os_error
from perdure.files.folders import ensure_folder
from perdure.files.opening import create_empty

LOGIN_CODES = "login-codes"
LOGIN_SESSIONS = "login-sessions"
"""The folders of a home that hold tickets, one for each kind."""

_SECRET_BYTES = 32
_CLOCK_STEP_S = 60.0
"""How far the clock may be set back after a secret was issued; a secret from further in the future is invalid."""
_NAME = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Tickets:
    """The secrets of one kind, in one folder."""

    folder: Path
    purpose: str
    """Part of the hash: a secret is valid for the purpose that it was issued for."""
    lasts_s: float
    most: int
    """Maximum number of unexpired secrets; issuing another one removes the oldest."""

    def issue(self, token: str) -> str:
        """Issue a new secret.

        Raises: Denied; Unavailable.
        """
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        ensure_folder(self.folder)
        if self.folder.is_symlink():
            raise Denied(f"{self.folder} is a link; expected a folder.")
        try:
            self._remove_old()
            create_empty(self._path(secret, token))
        except OSError as error:
            raise from_os_error(f"{self.folder} cannot be written to", error) from error
        return secret

    def is_valid(self, secret: str, token: str) -> bool:
        """Return whether a secret was issued under this token, has not expired and was not revoked."""
        made_s = _made_s(self._path(secret, token))
        return made_s is not None and -_CLOCK_STEP_S < time.time() - made_s < self.lasts_s

    def revoke(self, secret: str, token: str) -> bool:
        """Revoke a secret; return whether it was valid. Of several concurrent callers, one gets true."""
        is_valid = self.is_valid(secret, token)
        try:
            self._path(secret, token).unlink()
        except OSError:
            return False
        return is_valid

    def _path(self, secret: str, token: str) -> Path:
        message = f"{self.purpose} {secret}".encode("utf-8", "replace")
        return self.folder / hmac.new(token.encode(), message, "sha256").hexdigest()

    def _remove_old(self) -> None:
        """Remove expired secrets, and the oldest ones if there are too many."""
        for at, (made_s, path) in enumerate(sorted(_issued(self.folder), reverse=True)):
            if at >= self.most - 1 or time.time() - made_s >= self.lasts_s:
                path.unlink(missing_ok=True)


def revoke_all_tickets(home: Path) -> None:
    """Revoke every login code and login session of a home; other files in their folders are kept."""
    for folder in (home / LOGIN_CODES, home / LOGIN_SESSIONS):
        for _, path in _issued(folder):
            with suppress(OSError):
                path.unlink()


def _issued(folder: Path) -> list[tuple[float, Path]]:
    if folder.is_symlink() or not folder.is_dir():
        return []
    return [(made_s, path) for path in folder.iterdir() if (made_s := _made_s(path)) is not None]


def _made_s(path: Path) -> float | None:
    """Return the time at which a secret was issued; None for other and missing files."""
    try:
        found = path.lstat()
    except OSError:
        return None
    is_ticket = _NAME.fullmatch(path.name) is not None and stat.S_ISREG(found.st_mode) and found.st_size == 0
    return found.st_mtime if is_ticket else None
