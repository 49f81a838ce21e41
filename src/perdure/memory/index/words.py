"""The terms of a text: stems of words, and n-grams of Chinese, Japanese and Korean.

These languages write words without spaces, or with particles attached. A run of their characters is indexed by all of
its n-grams of one, two and three characters, so that any part of it is found. A query of three characters or more
searches for its n-grams of three and two characters, where rare ones weigh more; a shorter query is one n-gram itself.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain
from typing import Any

from perdure.memory.index.stems import stems_of
from perdure.memory.record import JsonObject

_LONGEST_WORD = 64
_ASCII_WORD = re.compile(r"[a-z0-9]{1,64}")
_ONLY_WORDS = bytes(ord(chr(code).lower() if chr(code).isalnum() else " ") for code in range(128)).ljust(256)
"""A translation table for the bytes of an ASCII text, which is faster than one for characters."""
_CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u303c\u3041-\u3096\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
"""Han, kana, bopomofo and Hangul."""
_FIRST_CJK = "\u1100"
_RUN = re.compile(f"[{_CJK}]")
_WORD = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]{{1,64}}")
_VOICED = "\u3099\u309a"
"""Marks of kana that change the letter, unlike accents."""
_LONGEST_NGRAM = 3


def words_in(text: str) -> list[str]:
    """Return the words of a text: letters and digits, case-folded, without accents; very long words are split.

    A run of characters that are written without spaces is one word, whatever its length.
    """
    if text.isascii():
        text = text.encode().translate(_ONLY_WORDS).decode()
        words = text.split()
        return words if max(map(len, words), default=0) <= _LONGEST_WORD else _ASCII_WORD.findall(text)
    parts = unicodedata.normalize("NFKD", text)
    bare = "".join(each for each in parts if each in _VOICED or not unicodedata.combining(each))
    return _WORD.findall(unicodedata.normalize("NFC", bare.casefold()))


def terms_of(content: JsonObject) -> list[str]:
    """Return the terms of a record's title and summary, with repetitions."""
    return terms_of_all([content])[0]


def terms_of_all(contents: Sequence[JsonObject]) -> list[list[str]]:
    """Return the terms of several records; stemming them together is faster."""
    words_of_each = [words_in(f"{_text_of(each.get('title'))} {_text_of(each.get('summary'))}") for each in contents]
    return [_terms(words, stems) for words, stems in zip(words_of_each, stems_of(words_of_each), strict=True)]


def terms_of_query(text: str, most: int) -> dict[str, str]:
    """Return the first terms of a query, each with the word that it comes from."""
    words = list(dict.fromkeys(words_in(text)))[:most]
    pairs = [
        (term, word)
        for word, stem in zip(words, stems_of([words])[0], strict=True)
        for term in (_query_ngrams(word) if _RUN.match(word) else [stem])
    ]
    terms: dict[str, str] = {}
    for term, word in pairs[:most]:
        terms.setdefault(term, word)
    return terms


def _terms(words: Sequence[str], stems: list[str]) -> list[str]:
    if max(words, default="") < _FIRST_CJK:
        return stems
    terms: list[str] = []
    for word, stem in zip(words, stems, strict=True):
        if _RUN.match(word):
            terms += chain.from_iterable(_ngrams(word, size) for size in range(1, _LONGEST_NGRAM + 1))
        else:
            terms.append(stem)
    return terms


def _query_ngrams(run: str) -> list[str]:
    if len(run) < _LONGEST_NGRAM:
        return [run]
    return [*_ngrams(run, _LONGEST_NGRAM), *_ngrams(run, _LONGEST_NGRAM - 1)]


def _ngrams(run: str, size: int) -> list[str]:
    return [run[at : at + size] for at in range(len(run) - size + 1)]


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""
