"""Notifies other processes of commits, and receives their notifications, by NOTIFY and LISTEN.

A transaction with a NOTIFY holds a global lock of the server from the NOTIFY until its commit is flushed, so such
transactions never share a flush. Therefore appends contain no NOTIFY: a process sends it afterwards, at most once per
`_PAUSE_S`, in a separate transaction that is not flushed. A notification is a hint. It is lost if a process is killed
between the two, or a pooler dropped the LISTEN; then polling finds the change.
"""

import logging
import secrets
import threading
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from perdure.errors import PerdureError
from perdure.store.commit_watch import Stop
from perdure.store.postgres.connection import connect
from perdure.store.target import PostgresTarget

if TYPE_CHECKING:
    import psycopg

CHANNEL = "perdure_commits"
_PAUSE_S = 0.05
_RECONNECT_S = 1.0
log = logging.getLogger(__name__)


class Notifier:
    """Sends notifications: the first at once, later ones combined."""

    def __init__(self, send: Callable[[str], None]) -> None:
        self.note = secrets.token_hex(8)
        """Identifies this sender, so that it ignores its own notifications."""
        self._send = send
        self._is_due = threading.Event()
        self._is_over = threading.Event()
        self._start_lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def announce(self) -> None:
        """Send a notification soon."""
        if not self._is_due.is_set():
            self._is_due.set()
            with self._start_lock:
                if self._thread is None and not self._is_over.is_set():
                    self._thread = threading.Thread(target=self._work, name="perdure-notifier", daemon=True)
                    self._thread.start()

    def close(self) -> None:
        """Send a pending notification, and end the thread."""
        with self._start_lock:
            self._is_over.set()
        is_due = self._is_due.is_set()
        self._is_due.set()
        if self._thread is not None:
            self._thread.join()
        if is_due:
            self._notify()

    def _work(self) -> None:
        while not self._is_over.is_set():
            self._is_due.wait()
            if self._is_over.is_set():
                return
            self._is_due.clear()
            self._notify()
            self._is_over.wait(_PAUSE_S)

    def _notify(self) -> None:
        self._send(f"BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {CHANNEL}, '{self.note}'; COMMIT")


def listen(target: PostgresTarget, own_note: str, stop: Stop, notify: Callable[[], None]) -> None:
    """Call a function at each notification of another sender, and whenever some may have been lost; see CommitWatch."""
    import psycopg

    while not stop.is_set:
        try:
            with closing(connect(target.url, autocommit=True)) as connection:
                connection.execute(f"LISTEN {CHANNEL}".encode())
                notify()
                _receive(connection, own_note, stop, notify)
        except (psycopg.Error, PerdureError) as error:
            log.info("no notifications from %s: %s", target.shown, error)
            stop.wait(_RECONNECT_S)


def _receive(connection: "psycopg.Connection[Any]", own_note: str, stop: Stop, notify: Callable[[], None]) -> None:
    """Wait for notifications until it is stopped, or the connection breaks and the driver raises."""
    server = connection.pgconn
    while not stop.wait(None, connection.fileno()):
        server.consume_input()
        is_notified = False
        while (note := server.notifies()) is not None:
            is_notified = is_notified or note.extra != own_note.encode()
        if is_notified:
            notify()
