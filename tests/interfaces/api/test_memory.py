"""The memory over HTTP, on both databases: what is added once is there once, and nothing odd gets through."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import Invalid, NotFound
from tests.interfaces.api.serving import Served, served

LESSON = {"type": "lesson", "title": "The cart caches prices", "paths": ["src/cart.py"], "severity": "high"}
RECORDS = "/memory/records"


@pytest.fixture
async def there(tmp_path: Path, database_url: str) -> AsyncIterator[Served]:
    async with served(tmp_path / "home", database_url) as found:
        yield found


@pytest.fixture
async def plain(tmp_path: Path, migrated_sqlite: str) -> AsyncIterator[Served]:
    """On one database: what has nothing to do with it."""
    async with served(tmp_path / "home", str(shutil.copy(migrated_sqlite, tmp_path / "perdure.db"))) as found:
        yield found


async def test_what_is_added_is_shown_found_and_forgotten(there: Served) -> None:
    answer = await there.http.post(RECORDS, json=LESSON)
    assert answer.status_code == 201
    added = answer.json()["data"]
    assert added == {"added": True, "id": added["id"]}
    assert answer.json()["_links"] == {"record": f"/api/v1{RECORDS}/{added['id']}"}
    memory = there.client.memory
    assert (await memory.get(added["id"]))["title"] == LESSON["title"]
    assert (await memory.get(added["id"][:13]))["id"] == added["id"], "a beginning is enough"
    (match,) = (await memory.search("prices"))["matches"]
    assert (match["record"]["id"], match["score"] > 0) == (added["id"], True)
    (match,) = (await memory.related(paths=["src"]))["matches"]
    assert [why["kind"] for why in match["why"]] == ["path"]
    assert (await memory.status())["records"] == 1
    assert await memory.forget(added["id"]) == {"forgotten": 1, "id": added["id"]}
    with pytest.raises(NotFound):
        await memory.get(added["id"])


async def test_a_duplicate_is_told_with_the_one_that_is_there(there: Served) -> None:
    added = await there.client.memory.add(LESSON)
    answer = await there.http.post(RECORDS, json=LESSON)
    assert answer.status_code == 200
    assert answer.json()["data"] == {"added": False, "reason": "duplicate", "existing_id": added["id"]}


async def test_a_call_with_a_key_is_done_once_however_often_and_whenever_it_is_made(there: Served) -> None:
    calls = [there.client.memory.add(LESSON, key="k-1") for _ in range(8)]
    answers = await asyncio.gather(*calls)
    assert answers == [{"added": True, "id": answers[0]["id"]}] * 8
    assert (await there.client.memory.status())["records"] == 1
    again = await there.http.post(RECORDS, json=LESSON, headers={"Idempotency-Key": "k-1"})
    assert (again.status_code, again.json()["data"]) == (201, answers[0])
    other = await there.http.post(RECORDS, json={"type": "fact"}, headers={"Idempotency-Key": "k-1"})
    assert (other.status_code, other.json()["code"]) == (422, "key_taken")
    await there.client.memory.forget(answers[0]["id"])
    assert await there.client.memory.add(LESSON, key="k-1") == answers[0]
    assert (await there.client.memory.status())["records"] == 0, "what was forgotten stays so"


async def test_an_id_that_is_not_like_ours_can_be_shown_and_forgotten(plain: Served) -> None:
    for odd in ("a/b c?d#e", "ä %2F", "../../token", "x" * 200):
        record = {"id": odd, "type": "fact", "title": odd}
        assert (await plain.client.memory.add(record))["id"] == odd
        assert (await plain.client.memory.get(odd))["title"] == odd
        assert (await plain.client.memory.forget(odd))["forgotten"] == 1


async def test_records_are_found_by_type_and_repository_and_no_more_than_asked_for(plain: Served) -> None:
    for number in range(4):
        await plain.client.memory.add({**LESSON, "title": f"prices {number}", "repo": f"shop-{number % 2}"})
    await plain.client.memory.add({"type": "fact", "title": "prices rise", "repo": "shop-0", "sha": "abc"})
    memory = plain.client.memory
    assert len((await memory.search("prices", limit=2))["matches"]) == 2
    (match,) = (await memory.search("prices", type="fact"))["matches"]
    assert match["record"]["title"] == "prices rise"
    found = (await memory.search("prices", type="lesson", repo="shop-1"))["matches"]
    assert {match["record"]["repo"] for match in found} == {"shop-1"}
    (match,) = (await memory.related(sha="abc"))["matches"]
    assert match["record"]["type"] == "fact"
    assert len((await memory.related(paths=["src/cart.py", "other"], limit=3))["matches"]) == 3
    assert (await memory.related(text="nothing of the kind"))["matches"] == []
    assert await memory.related() == {"matches": [], "truncated": False}


async def test_fingerprints_of_several_parts_are_found_again(plain: Served) -> None:
    added = await plain.client.memory.add({"type": "incident", "fingerprint": ["ValueError", "cart.py"]})
    (match,) = (await plain.client.memory.related(fingerprint=["ValueError", "cart.py"]))["matches"]
    assert match["record"]["id"] == added["id"]
    assert (await plain.client.memory.related(fingerprint="ValueError"))["matches"] == []


async def test_a_list_of_matches_has_the_form_of_a_list(plain: Served) -> None:
    await plain.client.memory.add(LESSON)
    for path in (f"{RECORDS}?text=prices", "/memory/related?path=src"):
        answer = (await plain.http.get(path)).json()
        assert len(answer["data"]) == 1
        assert (answer["meta"]["next_cursor"], answer["meta"]["truncated"]) == (None, False)


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"title": "no type"},
        {"type": "Not a word"},
        {"type": "_tombstone", "target": "x"},
        {"type": "fact", "paths": ["../out"]},
        {"type": "fact", "paths": [7]},
        {"type": "fact", "timestamp": "yesterday"},
        {"type": "fact", "id": ""},
        {"type": "fact", "id": "x" * 201},
        {"type": "fact", "_c": "00000000"},
        {"type": "fact", "metadata": []},
        [],
        "text",
        None,
    ],
)
async def test_a_record_that_makes_no_sense_is_refused_and_uses_up_no_key(plain: Served, record: Any) -> None:
    headers = {"Idempotency-Key": "k"}
    answer = await plain.http.post(RECORDS, json=record, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await plain.http.post(RECORDS, json=LESSON, headers=headers)).status_code == 201


@pytest.mark.parametrize(
    "query",
    [
        "/memory/records",
        "/memory/records?text=",
        f"/memory/records?text={'x' * 10_001}",
        "/memory/records?text=x&limit=0",
        "/memory/records?text=x&limit=501",
        "/memory/records?text=x&limit=many",
        "/memory/records?text=x&type=No",
        f"/memory/records?text=x&repo={'x' * 501}",
        "/memory/related?path=../out",
        "/memory/related?path=",
        "/memory/related?pr_number=-1",
        "/memory/related?pr_number=9223372036854775808",
        "/memory/related?path=a&limit=0",
        "/memory/related?" + "&".join(["fingerprint=x"] * 51),
        "/memory/related?" + "&".join(["path=x"] * 1001),
    ],
)
async def test_a_parameter_that_makes_no_sense_is_refused(plain: Served, query: str) -> None:
    answer = await plain.http.get(query)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


@pytest.mark.parametrize("odd", ["nothing", "", "%00", "%ff", "..%2f..%2ftoken", "x" * 5000])
async def test_an_id_that_is_not_there_is_not_found(plain: Served, odd: str) -> None:
    for method in ("GET", "DELETE"):
        answer = await plain.http.request(method, f"{RECORDS}/{odd}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_a_memory_that_is_switched_off_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_ENABLED", "false")
    async with served(tmp_path / "home", str(tmp_path / "perdure.db")) as found:
        answer = await found.http.post(RECORDS, json=LESSON, headers={"Idempotency-Key": "k"})
        assert (answer.status_code, answer.json()["data"]) == (200, {"added": False, "reason": "disabled"})
        assert (await found.client.memory.search("x"))["disabled"] is True
        assert (await found.client.memory.status())["enabled"] is False


async def test_settings_of_the_memory_that_make_no_sense_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_RETENTION_DAYS", "never")
    async with served(tmp_path / "home", str(tmp_path / "perdure.db")) as found:
        with pytest.raises(Invalid, match="retention_days"):
            await found.client.memory.add(LESSON)
