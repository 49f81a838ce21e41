"""Words by their stem and in Chinese, Japanese and Korean: the same with any index, and with the index of old."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.memory.index.words import terms_of, terms_of_query
from perdure.memory.log.lines import line_of
from perdure.memory.log.log import now_ms
from perdure.memory.memory import Memory
from perdure.memory.record import JsonObject

RECORDS: list[JsonObject] = [
    {"id": "cache", "title": "Prices are stale: the cart caches them", "paths": ["shop/cart.py"]},
    {"id": "tax", "title": "Taxes were rounded per line", "paths": ["shop/tax.py"]},
    {"id": "chinese", "title": "购物车缓存了旧价格", "summary": "API接口返回错误", "paths": ["shop/cart.py"]},
    {"id": "japanese", "title": "カートの価格が古い", "summary": "ｷｬｯｼｭ が原因です"},
    {"id": "korean", "title": "장바구니의 가격이 오래되었다"},
    {"id": "german", "title": "Die Größe der Körbe"},
]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path / "state")
    memory.files.log.parent.mkdir()
    memory.files.log.write_bytes(b"".join(line_of({"type": "lesson", **each}, now_ms()) for each in RECORDS))
    yield memory
    memory.close()


def found(memory: Memory, text: str) -> list[str]:
    return [match["record"]["id"] for match in memory.search(text, budget_ms=60_000)["matches"]]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("price", ["cache"]),
        ("CACHING", ["cache"]),
        ("tax", ["tax"]),
        ("rounding lines", ["tax"]),
        ("价格", ["chinese"]),
        ("购物车", ["chinese"]),
        ("车", ["chinese"]),
        ("旧价格", ["chinese"]),
        ("接口", ["chinese"]),
        ("api", ["chinese"]),
        ("价格缓存", ["chinese"]),
        ("価格", ["japanese"]),
        ("キャッシュ", ["japanese"]),
        ("カート", ["japanese"]),
        ("か", []),
        ("가격", ["korean"]),
        ("장바구니", ["korean"]),
        ("grösse", ["german"]),
        ("苹果", []),
    ],
)
def test_words_are_found_by_stem_and_by_any_part_without_blanks(memory: Memory, text: str, ids: list[str]) -> None:
    assert found(memory, text) == ids


def test_a_reason_names_the_words_as_they_were_asked_for(memory: Memory) -> None:
    [english] = memory.related(paths=["shop"], text="caching prices")["matches"]
    assert english["why"][-1] == {"kind": "text", "value": "caching prices"}
    [chinese] = memory.related(text="缓存了旧价格")["matches"]
    assert chinese["why"] == [{"kind": "text", "value": "缓存了旧价格"}]
    assert memory.related(text="缓存了新价格")["matches"] == [], "all pieces are wanted"


def answers(memory: Memory) -> list[Any]:
    texts = ["price", "价格", "価格", "가격이", "taxes rounding", "カートの価格"]
    return [(memory.search(text, budget_ms=60_000), memory.related(text=text, budget_ms=60_000)) for text in texts]


def test_answers_are_equal_with_and_without_an_index(memory: Memory, tmp_path: Path) -> None:
    expected = answers(memory)
    memory.files.index.unlink()
    assert answers(memory) == expected
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(memory.files.log, other)
    (other / "memory.idx.sqlite").mkdir()  # no index can be made there
    remaining_ranges = Memory(other)
    assert answers(remaining_ranges) == expected
    remaining_ranges.close()
    assert (other / "memory.idx.sqlite").is_dir()


def make_old(memory: Memory) -> None:
    """Turn the index into one of the version before, whose words were not stemmed; it looks untouched."""
    memory.close()
    with sqlite3.connect(memory.files.index) as connection:
        [stamp] = connection.execute("SELECT stamp FROM noted").fetchone()
        connection.execute("INSERT INTO texts (texts) VALUES ('delete-all')")
        texts = ((n << 8 | 3, record["title"].lower()) for n, record in enumerate(RECORDS, 1))
        connection.executemany("INSERT INTO texts (rowid, words) VALUES (?, ?)", texts)
        connection.execute("DROP TABLE IF EXISTS superseded")
        connection.execute("PRAGMA user_version = 3")
    connection.close()
    os.utime(memory.files.index, ns=(stamp, stamp))


def test_the_index_of_an_older_version_is_rebuilt_once_and_the_log_stays(memory: Memory) -> None:
    expected = answers(memory)
    log = memory.files.log.read_bytes()
    make_old(memory)
    old = memory.files.index.stat().st_ino
    assert answers(memory) == expected
    made = memory.files.index.stat().st_ino
    assert made != old
    assert memory.index_state()["state"] == "current"
    assert not memory.add({"id": "cache", "type": "lesson", **RECORDS[0]})["added"]
    assert answers(memory) == expected
    assert memory.files.index.stat().st_ino == made
    assert memory.files.log.read_bytes() == log


eastern = st.text(alphabet="购物车缓存了旧价格カートの価が古いガ장바구니의 가격이aé1 -", max_size=12)


@given(eastern, eastern)
def test_every_part_of_a_text_is_found_in_it(before: str, part: str) -> None:
    terms = terms_of({"title": f"{before} {part}", "summary": before})
    assert set(terms_of_query(part, 64)) <= set(terms)
    assert set(terms_of_query(before, 64)) <= set(terms)


@given(st.text(alphabet="购物车缓存了旧价格", min_size=1, max_size=20), st.data())
def test_every_slice_of_chinese_is_found(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert set(terms_of_query(text[start:end], 64)) <= set(terms_of({"title": f"x{text}y"}))
