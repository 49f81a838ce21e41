"""Records the process of a call in a file, so that another process of the home can end it if the worker dies.

A note belongs to a home: a copy of a home has copies of its notes, and must not end processes of the original.
"""

import hashlib
import logging
import os
import re
import weakref
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from perdure.errors import PerdureError, Unavailable
from perdure.files.folders import ensure_folder
from perdure.files.opening import open_file
from perdure.tools.exec.processes import ProcessIdentity

log = logging.getLogger(__name__)

_MOST_KEPT = 64
_MOST_PIDS = 2**31
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True)
class Home:
    """The home of a note, by its random id and its path. A copy has another id or path."""

    id: str
    path: str


@dataclass(frozen=True, slots=True)
class Note:
    """A process and its home; notes of older versions have no home."""

    identity: ProcessIdentity
    home: Home | None


def note_path(run_dir: Path, goal_id: str, call_id: str) -> Path:
    """Return the path of the note of a call, which is unique for each call id."""
    return run_dir / _file_name(goal_id) / f"{_file_name(call_id)}.json"


def write_note(path: Path, note: Note) -> None:
    """Record the process. The file is not flushed, because no process survives a power failure.

    Raises: Unavailable when it cannot be written.
    """
    try:
        home = {"home_id": note.home.id, "home": note.home.path} if note.home else {}
        content = orjson.dumps({**asdict(note.identity), **home})
        with os.fdopen(_open(path), "wb") as file:
            file.write(content)
    except (PerdureError, OSError) as error:
        raise Unavailable(f"{path} cannot be written, so the program was not started: {error}.") from error


def read_note(path: Path) -> Note | None:
    """Return the recorded process; None without a complete note: then the program was not started.

    Raises: OSError when the note cannot be read.
    """
    try:
        content = orjson.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, orjson.JSONDecodeError):
        return None
    match content:
        case {"pid": int(pid), "started": str(started), "boot_id": str(boot_id)} if 1 < pid < _MOST_PIDS:
            return Note(ProcessIdentity(pid, started, boot_id), _home_in(content))
    return None


def remove_note(path: Path, note: Note | None) -> None:
    """Remove a note, unless it is of another process or cannot be read."""
    try:
        if note == read_note(path):
            path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("removing the note %s failed: %s", path, error)


def _home_in(content: dict[str, object]) -> Home | None:
    match content:
        case {"home_id": str(home_id), "home": str(path)}:
            return Home(home_id, path)
    return None


class Folders:
    """The folders of notes. A folder is kept for the next call of its goal; empty ones are removed with this object."""

    def __init__(self) -> None:
        self._used: set[Path] = set()
        weakref.finalize(self, _remove_empty, self._used)

    def use(self, folder: Path) -> None:
        """Register a folder for removal; empty ones are removed when there are many."""
        if folder not in self._used and len(self._used) >= _MOST_KEPT:
            _remove_empty(self._used)
        self._used.add(folder)


def _remove_empty(folders: set[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
    folders.clear()


def _open(path: Path) -> int:
    """Open a note for writing, and create its folder for the first note of a goal."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with suppress(FileNotFoundError):
        return open_file(path, flags)
    ensure_folder(path.parent)
    return open_file(path, flags)


def _file_name(name: str) -> str:
    """Return a portable file name; distinct names stay distinct, even if the system ignores case."""
    if _PLAIN.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{re.sub(r'[^a-z0-9]+', '-', name.lower())[:40].strip('-')}.{digest[:32]}"
