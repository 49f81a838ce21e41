"""Where a memory is: the folder, and the files in it."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from perdure.errors import Invalid
from perdure.files.folders import ensure_folder
from perdure.settings import NoHome, absolute, load_settings

LOG_FILE = "memory.jsonl"
LOCK_FILES = ("memory.jsonl.new", "memory.idx.lock", "memory.jsonl.lock")
"""What is locked by those who rewrite the log, write its index, or append; in this order where one takes several."""


@dataclass(frozen=True)
class Places:
    """The files of one log; all of them lie beside it."""

    log: Path

    def __post_init__(self) -> None:
        """Raises: Invalid when that cannot be the name of a file."""
        if not self.log.name or "\0" in str(self.log):
            raise Invalid(f"{str(self.log)!r} cannot be the file of a memory: it is not the name of a file.")

    @cached_property
    def lock(self) -> Path:
        """What is locked; made once, never renamed, never removed."""
        return self.log.with_name(f"{self.log.name}.lock")

    @cached_property
    def failed(self) -> Path:
        """Is there after a flush has failed, and stops every append."""
        return self.log.with_suffix(".failed")

    @cached_property
    def index(self) -> Path:
        """The derived index; may be deleted at any time."""
        return self.log.with_suffix(".idx.sqlite")

    @cached_property
    def new_index(self) -> Path:
        """An index that is being made, by whoever holds the lock of the index."""
        return self.log.with_suffix(".idx.new")

    @cached_property
    def index_lock(self) -> Path:
        """What is locked while the index is written; the log goes on meanwhile."""
        return self.log.with_suffix(".idx.lock")

    @cached_property
    def new(self) -> Path:
        """What is to take the place of the log; locked by the one who writes it, left behind only by the dead."""
        return self.log.with_name(f"{self.log.name}.new")

    @cached_property
    def archive(self) -> Path:
        """Records that compaction moved out."""
        return self.log.with_name("archive")

    @cached_property
    def quarantine(self) -> Path:
        """Damaged bytes that `repair` moved aside."""
        return self.log.with_name("quarantine")


def get_memory_state_dir(explicit: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of the memory; it is made if it is missing, for its owner alone.

    An explicit folder, then `MEMORY_STATE_DIR`, then `$PERDURE_HOME/state`, then `~/.perdure/state`, and
    `./.perdure/state` where there is no home.

    Raises: Invalid when that cannot be a folder.
    """
    folder = _state_dir(explicit)
    ensure_folder(folder)
    return folder


def _state_dir(explicit: str | os.PathLike[str] | None) -> Path:
    if explicit is not None:
        return absolute(os.fspath(explicit))
    try:
        return load_settings().memory_state_dir
    except NoHome:
        return absolute(os.environ.get("MEMORY_STATE_DIR") or ".perdure/state")
