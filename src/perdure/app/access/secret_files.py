"""The secrets of a home, each in a private file under its name. Backups and exports do not contain them."""

import os
from pathlib import Path

from perdure.errors import Damaged, Invalid, NotFound, from_os_error
from perdure.files.atomic import write_atomic
from perdure.files.folders import ensure_folder
from perdure.files.fsync import fsync_folder
from perdure.files.opening import open_file
from perdure.model_settings import SECRET

SECRETS_FOLDER = "secrets"
SHORTEST, LONGEST = 8, 4096


class SecretFiles:
    """See Secrets. A file has one line, and only its owner can read it."""

    def __init__(self, home: Path) -> None:
        self.folder = home / SECRETS_FOLDER
        """The folder of the files."""

    def path(self, name: str) -> Path:
        """Return the path of the file of a secret.

        Raises: Invalid when the name is invalid.
        """
        if not SECRET.fullmatch(f"secret:{name}"):
            raise Invalid(f"Invalid name of a secret: expected at most 64 letters, digits and _, got {name[:60]!r}.")
        return self.folder / name

    def read(self, name: str) -> str | None:
        """See Secrets.read."""
        path = self.path(name)
        try:
            with os.fdopen(open_file(path), "rb") as file:
                held = file.read(LONGEST + 2)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise from_os_error(f"The secret {path} cannot be read", error) from error
        try:
            return require_secret(held.decode())
        except (UnicodeDecodeError, Invalid):
            raise Damaged(f"{path} does not contain a valid secret. Store it again, or remove the file.") from None

    def write(self, name: str, value: str) -> Path:
        """Store a secret durably, replacing an existing one; return its file.

        Raises: Invalid, without the value, when it cannot be a secret; Denied.
        """
        path, line = self.path(name), f"{require_secret(value)}\n".encode()
        ensure_folder(self.folder)
        try:
            write_atomic(path, line)
        except OSError as error:
            raise from_os_error(f"The secret {path} cannot be written", error) from error
        return path

    def remove(self, name: str) -> None:
        """Remove a secret.

        Raises: NotFound; Denied
        """
        path = self.path(name)
        try:
            path.unlink()
            fsync_folder(self.folder)
        except FileNotFoundError:
            raise NotFound(f"No secret {name!r} in {self.folder}.") from None
        except OSError as error:
            raise from_os_error(f"The secret {path} cannot be removed", error) from error

    def names(self) -> list[str]:
        """Return the names of all secrets.

        Raises: Denied
        """
        try:
            return sorted(each.name for each in self.folder.iterdir() if SECRET.fullmatch(f"secret:{each.name}"))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise from_os_error(f"{self.folder} cannot be read", error) from error


def require_secret(value: str) -> str:
    """Return a secret without surrounding blanks; it must fit in an HTTP header.

    Raises: Invalid, without the value.
    """
    stripped = value.strip()
    if not SHORTEST <= len(stripped) <= LONGEST:
        raise Invalid(f"A secret must have {SHORTEST} to {LONGEST} characters, got {len(stripped)}.")
    if not all("!" <= char <= "~" for char in stripped):
        raise Invalid("A secret must consist of visible ASCII characters without blanks.")
    return stripped
