"""One-time codes that let a browser in. Each is an empty file in the home, and used up by removing it.

So anybody who may read the token can make one, for whichever server runs on the home, and two servers never take the
same one. The name of the file tells the code to nobody, and is another when the token is.
"""

import hmac
import os
import re
import secrets
import stat
import time
from pathlib import Path

from perdure.errors import Denied, from_os_error
from perdure.interfaces.api.doors import read_token
from perdure.settings import FILE_MODE, ensure_folder

LASTS_S = 600.0
_FOLDER = "login-codes"
_MOST = 16
_CODE_BYTES = 32
_NAME = re.compile("[0-9a-f]{64}")


def login_url(server: str, home: Path) -> str:
    """Return a URL that lets a browser in at a server of this home, once, within ten minutes.

    Raises: as `new_code`.
    """
    return f"{server}/login?code={new_code(home)}"


def new_code(home: Path) -> str:
    """Make a code; of many that nobody has used, the oldest is forgotten.

    Raises: Damaged or Denied when there is no token, or the home cannot be written to.
    """
    code, folder = secrets.token_urlsafe(_CODE_BYTES), home / _FOLDER
    path = folder / _name(code, read_token(home))
    ensure_folder(folder)
    if folder.is_symlink():
        raise Denied(f"{folder} is a link; a folder of our own was expected.")
    try:
        _forget_old(folder)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
    except OSError as error:
        raise from_os_error(f"{folder} cannot be written to", error) from error
    return code


def spend_code(home: Path, given: str, token: str) -> bool:
    """Use up a code; false when it is none, too old, was used before, or was made for another token."""
    path = home / _FOLDER / _name(given, token)
    made_s = _made_s(path)
    try:
        path.unlink()  # of two who try, one can
    except OSError:
        return False
    return made_s is not None and abs(time.time() - made_s) < LASTS_S


def _name(code: str, token: str) -> str:
    return hmac.new(token.encode(), code.encode("utf-8", "replace"), "sha256").hexdigest()


def _forget_old(folder: Path) -> None:
    """Remove the codes that are too old, and the oldest of too many; whatever else lies there is left alone."""
    made = [(made_s, path) for path in folder.iterdir() if (made_s := _made_s(path)) is not None]
    for at, (made_s, path) in enumerate(sorted(made, reverse=True)):
        if at >= _MOST - 1 or time.time() - made_s >= LASTS_S:
            path.unlink(missing_ok=True)


def _made_s(path: Path) -> float | None:
    """Return when a code was made; None for what is none, or gone."""
    try:
        found = path.lstat()
    except OSError:
        return None
    is_code = _NAME.fullmatch(path.name) is not None and stat.S_ISREG(found.st_mode) and found.st_size == 0
    return found.st_mtime if is_code else None
