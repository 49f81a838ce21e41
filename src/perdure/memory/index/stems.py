"""The stems of English words, as the tokenizer `porter unicode61` of SQLite's FTS5 makes them.

Python asks the tokenizer itself, so that the terms of a record that is read again are those that the index holds. The
tokenizer is a private, empty table: a word is put into it, its term is read from the vocabulary, and the word is gone.
"""

import os
import sqlite3
import threading
from collections.abc import Mapping, Sequence, Set

_SHORTEST, _LONGEST = 3, 64
"""Porter does not change shorter and longer words."""
_MOST_KNOWN = 1 << 16
_TABLES = """
    CREATE VIRTUAL TABLE words USING fts5 (word, content='', tokenize='porter unicode61');
    CREATE VIRTUAL TABLE terms USING fts5vocab (words, instance);
"""


class _Stemmer:
    """Caches stems, and asks the tokenizer for unknown ones. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._known: dict[str, str] = {}

    def known(self, words: Set[str]) -> Mapping[str, str]:
        """Return a mapping with the stems of these words; a word that is not in it is its own stem."""
        known = self._known
        if not any(map(_has_a_stem, words - known.keys())):
            return known
        with self._lock:
            if len(self._known) > _MOST_KNOWN:
                self._known = {}
            known = self._known
            known.update(self._asked([word for word in words - known.keys() if _has_a_stem(word)]))
            return known

    def _asked(self, words: Sequence[str]) -> dict[str, str]:
        if self._connection is None:
            self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._connection.executescript(_TABLES)
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT INTO words (rowid, word) VALUES (?, ?)", enumerate(words))
        found = {words[row]: term for row, term in self._connection.execute("SELECT doc, term FROM terms")}
        self._connection.execute("ROLLBACK")
        return found


def _has_a_stem(word: str) -> bool:
    return _SHORTEST <= len(word) <= _LONGEST and word.isascii() and word.isalpha()


_stemmer = _Stemmer()
_abandoned: list[_Stemmer] = []


def stems_of(texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the stem of each lower-case word of texts; a word with other than English letters is its own stem."""
    known = _stemmer.known(set[str]().union(*texts))
    return [list(map(known.get, words, words)) for words in texts]


def _after_fork_in_child() -> None:
    """Use a new stemmer: another thread may have held the lock, and the connection belongs to the parent."""
    global _stemmer  # noqa: PLW0603
    _abandoned.append(_stemmer)
    _stemmer = _Stemmer()


os.register_at_fork(after_in_child=_after_fork_in_child)
