"""Logging: a rotating file in the home, and standard error with --verbose."""

import logging
import logging.handlers
import os
import sys
import time
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.errors import PerdureError
from perdure.files.folders import FOLDER_MODE
from perdure.files.opening import FILE_MODE
from perdure.interfaces.cli.output.terminal import lines

if TYPE_CHECKING:
    from perdure.interfaces.cli.command import Options

MAX_BYTES = 1_000_000
KEPT = 3
_MISTAKES = "perdure.minds.flow.steps.user_errors"
"""The logger of tracebacks of flows and steps, which --debug prints."""
_FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"


class PrivateLog(logging.handlers.RotatingFileHandler):
    """A rotating file with mode 0600. It does not create a home: without one, records are dropped.

    Errors of the log file are ignored, so that they do not fail the logged work.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=MAX_BYTES, backupCount=KEPT, encoding="utf-8", delay=True)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        if self._path.parent.parent.is_dir():
            self._follow()
            super().emit(record)

    def _follow(self) -> None:
        """Reopen the file if another process has rotated it; else a server would write to the old one for days."""
        if self.stream is None:
            return
        try:
            is_in_place = os.path.samestat(os.stat(self._path), os.fstat(self.stream.fileno()))
        except OSError:
            is_in_place = False
        if not is_in_place:
            self.stream.close()
            self.stream = None

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the name is logging's)
        """Ignore the error."""

    def _open(self) -> TextIOWrapper:
        self._path.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
        return os.fdopen(fd, "a", encoding="utf-8")


class SafeFormatter(logging.Formatter):
    """Escapes control characters: a log is read on terminals."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter.format."""
        return lines(super().format(record))


def start_logging(options: "Options") -> None:
    """Send log records of `perdure` to the file in the home, and with --verbose to standard error."""
    log = logging.getLogger("perdure")
    log.setLevel(logging.INFO)
    log.propagate = False
    for old in list(log.handlers):
        log.removeHandler(old)
        old.close()
    if options.verbose or options.debug:
        shown = logging.StreamHandler(sys.stderr)
        shown.setFormatter(SafeFormatter("%(name)s: %(message)s"))
        if not options.verbose:
            shown.addFilter(lambda record: record.name == _MISTAKES)
        log.addHandler(shown)
    try:
        kept = PrivateLog(options.settings().log_file)
    except PerdureError:
        log.addHandler(logging.NullHandler())
        return  # the command itself reports invalid settings
    formatter = SafeFormatter(_FORMAT, datefmt="%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    kept.setFormatter(formatter)
    if not options.verbose:
        kept.addFilter(lambda record: record.name != "perdure.store.sql")
    log.addHandler(kept)


def keep_no_log() -> None:
    """Write nothing into the log of the home from now on; --verbose is not affected."""
    log = logging.getLogger("perdure")
    for kept in [handler for handler in log.handlers if isinstance(handler, PrivateLog)]:
        log.removeHandler(kept)
        kept.close()
    log.addHandler(logging.NullHandler())  # without any, Python itself would write to standard error
