"""The folder of a memory, and the files in it."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from perdure.errors import Invalid
from perdure.files.folders import ensure_folder
from perdure.settings import NoHome, absolute, load_settings

LOG_FILE = "memory.jsonl"
LOCK_FILES = ("memory.jsonl.new", "memory.idx.lock", "memory.jsonl.lock")
"""The locks for rewriting the log, writing its index, and appending; a process takes them in this order."""


@dataclass(frozen=True)
class MemoryFiles:
    """The files of one log; all are in its folder."""

    log: Path

    def __post_init__(self) -> None:
        """Raises: Invalid when the path cannot be a file."""
        if not self.log.name or "\0" in str(self.log):
            raise Invalid(f"{str(self.log)!r} cannot be the file of a memory: it is not the name of a file.")

    @cached_property
    def lock(self) -> Path:
        """The lock for appends; created once, never renamed, never removed."""
        return self.log.with_name(f"{self.log.name}.lock")

    @cached_property
    def failed(self) -> Path:
        """Exists after a flush has failed, and stops every append."""
        return self.log.with_suffix(".failed")

    @cached_property
    def index(self) -> Path:
        """The derived index; may be deleted at any time."""
        return self.log.with_suffix(".idx.sqlite")

    @cached_property
    def new_index(self) -> Path:
        """An index that is being built by the holder of the index lock."""
        return self.log.with_suffix(".idx.new")

    @cached_property
    def index_lock(self) -> Path:
        """The lock for writing the index; appends to the log continue meanwhile."""
        return self.log.with_suffix(".idx.lock")

    @cached_property
    def new(self) -> Path:
        """The file that will replace the log; locked while it is written, left behind only by a crash."""
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
    """Return the folder of the memory; a missing one is created with mode 0700.

    The explicit folder, else `MEMORY_STATE_DIR`, else `$PERDURE_HOME/state`, else `~/.perdure/state`, else
    `./.perdure/state` when there is no home directory.

    Raises: Invalid when it cannot be a folder.
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
