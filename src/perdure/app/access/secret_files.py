"""The secrets of a home: one private file for each, by name. Backups and exports do not contain them."""

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
    """See Secrets. A file holds one line, and only its owner can read it."""

    def __init__(self, home: Path) -> None:
        self.folder = home / SECRETS_FOLDER
        """Where they are."""

    def path(self, name: str) -> Path:
        """Return where a secret is stored.

        Raises: Invalid when it cannot be the name of one.
        """
        if not SECRET.fullmatch(f"secret:{name}"):
            raise Invalid(f"{name[:60]!r} is not the name of a secret. Expected letters, digits and _, at most 64.")
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
            raise Damaged(f"{path} does not hold a secret. Store it again, or remove the file.") from None

    def write(self, name: str, value: str) -> Path:
        """Store a secret in place of one that is there, durably; return its file.

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
            raise NotFound(f"There is no secret {name!r}; {self.folder} holds none of that name.") from None
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
    """Return a secret without the blanks around it; it is sent in a header, which can hold no others.

    Raises: Invalid, without the value.
    """
    stripped = value.strip()
    if not SHORTEST <= len(stripped) <= LONGEST:
        raise Invalid(f"A secret has {SHORTEST} to {LONGEST} characters; found {len(stripped)}.")
    if not all("!" <= char <= "~" for char in stripped):
        raise Invalid("A secret consists of visible ASCII characters, without blanks.")
    return stripped
