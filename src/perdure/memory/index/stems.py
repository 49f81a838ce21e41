"""The stems of English words, as the tokenizer `porter unicode61` of SQLite's FTS5 makes them.

Python asks the tokenizer itself, so that the terms of a record that is read again are those that the index holds. The
tokenizer is a private, empty table: a word is inserted, its term is read from the vocabulary, and the insert is
rolled back.
"""

import os
import sqlite3
import threading
from collections.abc import Mapping, Sequence, Set

_SHORTEST, _LONGEST = 3, 64
"""Porter does not change shorter and longer words."""
_MOST_CACHED = 1 << 16
_TABLES = """
    CREATE VIRTUAL TABLE words USING fts5 (word, content='', tokenize='porter unicode61');
    CREATE VIRTUAL TABLE terms USING fts5vocab (words, instance);
"""


class _Stemmer:
    """Caches stems, and asks the tokenizer for unknown ones. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._stems: dict[str, str] = {}

    def stems_for(self, words: Set[str]) -> Mapping[str, str]:
        """Return a mapping with the stems of these words; a word that is not in it is its own stem."""
        stems_for = self._stems
        if not any(map(_has_a_stem, words - stems_for.keys())):
            return stems_for
        with self._lock:
            if len(self._stems) > _MOST_CACHED:
                self._stems = {}
            stems_for = self._stems
            stems_for.update(self._stem([word for word in words - stems_for.keys() if _has_a_stem(word)]))
            return stems_for

    def _stem(self, words: Sequence[str]) -> dict[str, str]:
        if self._connection is None:
            self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._connection.executescript(_TABLES)
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT INTO words (rowid, word) VALUES (?, ?)", enumerate(words))
        stems = {words[row]: term for row, term in self._connection.execute("SELECT doc, term FROM terms")}
        self._connection.execute("ROLLBACK")
        return stems


def _has_a_stem(word: str) -> bool:
    return _SHORTEST <= len(word) <= _LONGEST and word.isascii() and word.isalpha()


_stemmer = _Stemmer()
_abandoned: list[_Stemmer] = []


def stems_of(texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the stem of each lower-case word of texts; a word with other than English letters is its own stem."""
    stems = _stemmer.stems_for(set[str]().union(*texts))
    return [list(map(stems.get, words, words)) for words in texts]


def _after_fork_in_child() -> None:
    """Use a new stemmer: another thread may have held the lock, and the connection belongs to the parent."""
    global _stemmer  # noqa: PLW0603
    _abandoned.append(_stemmer)
    _stemmer = _Stemmer()


os.register_at_fork(after_in_child=_after_fork_in_child)
