"""The memory over HTTP, on both databases: what is added once is there once, and nothing odd gets through."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, NotFound
from perdure.interfaces.api.dependencies import BASE
from perdure.interfaces.api.envelope import REQUEST_INFO, RequestInfo, to_cursor
from tests.interfaces.api.serving import Served, served

LESSON = {"type": "lesson", "title": "The cart caches prices", "paths": ["src/cart.py"], "severity": "high"}
RECORDS = "/memory/records"


def cursor_of(path: str, place: str) -> str:
    """Return the cursor that a list would give out for a place."""
    token = REQUEST_INFO.set(RequestInfo.now(BASE + path, b""))
    try:
        return to_cursor(place)
    finally:
        REQUEST_INFO.reset(token)


async def test_what_is_added_is_shown_found_and_forgotten(there: Served) -> None:
    answer = await there.http.post(RECORDS, json=LESSON)
    assert answer.status_code == 201
    added = answer.json()["data"]
    assert added == {"added": True, "id": added["id"]}
    assert answer.json()["_links"] == {"record": f"/api/v1{RECORDS}/{added['id']}"}
    memory = there.client.memory
    assert (await memory.get(added["id"]))["title"] == LESSON["title"]
    with pytest.raises(NotFound, match=f"Did you mean '{added['id']}'"):
        await memory.get(added["id"][:13])
    (match,) = (await memory.search("prices"))["matches"]
    assert (match["record"]["id"], match["score"] > 0) == (added["id"], True)
    (related,) = (await memory.related(paths=["src"]))["matches"]
    assert [why["kind"] for why in related["why"]] == ["path"]
    assert (await memory.status())["records"] == 1
    assert await memory.forget(added["id"]) == {"forgotten": 1, "id": added["id"]}
    with pytest.raises(NotFound):
        await memory.get(added["id"])


async def test_records_are_listed_the_newest_first_and_narrowed_down(plain: Served) -> None:
    memory = plain.client.memory
    for number in range(5):
        kind = "fact" if number % 2 else "lesson"
        await memory.add({"type": kind, "title": f"n{number}", "source": "ci", "timestamp": 1_750_000_000 + number})
    first = await memory.list(limit=3, source="ci")
    assert [match["record"]["title"] for match in first["matches"]] == ["n4", "n3", "n2"]
    assert "score" not in first["matches"][0]
    rest = await memory.list(limit=3, source="ci", cursor=first["next_cursor"])
    assert [match["record"]["title"] for match in rest["matches"]] == ["n1", "n0"]
    assert "next_cursor" not in rest
    since = await memory.list(type="lesson", since="1750000002", until="1750000004")
    assert [match["record"]["title"] for match in since["matches"]] == ["n2"]
    assert (await memory.search("n1", type="lesson"))["matches"] == []
    for query in ("since=soon", "type=BAD", "limit=0"):
        assert (await plain.http.get(f"{RECORDS}?{query}")).status_code == 422


async def test_an_update_supersedes_under_a_key(plain: Served) -> None:
    memory = plain.client.memory
    first = await memory.update("deploy/window", {"type": "fact", "title": "Deploys on Mondays"})
    assert first["key"] == "deploy/window"
    answer = await plain.http.patch(f"{RECORDS}/deploy%2Fwindow", json={"title": "Deploys on Tuesdays"})
    second = answer.json()["data"]
    assert (answer.status_code, second["superseded"]) == (200, [first["id"]])
    assert answer.json()["_links"]["record"] == f"/api/v1{RECORDS}/{second['id']}"
    again = await memory.update("deploy/window", {"title": "Deploys on Tuesdays"})
    assert again == {"added": False, "reason": "unchanged", "existing_id": second["id"]}
    assert [match["record"]["id"] for match in (await memory.search("deploy"))["matches"]] == [second["id"]]
    for changes in ({"title": "x"}, {"type": "fact", "title": "x", "id": "mine"}):
        assert (await plain.http.patch(f"{RECORDS}/other", json=changes)).status_code == 422


@pytest.mark.parametrize("record", [{"type": "fact"}, {**LESSON, "severity": "odd"}, {**LESSON, "type": "Odd"}])
async def test_a_record_that_says_nothing_or_has_odd_values_is_refused(plain: Served, record: dict[str, Any]) -> None:
    assert (await plain.http.post(RECORDS, json=record)).status_code == 422
    assert (await plain.client.memory.list())["matches"] == []


async def test_a_duplicate_is_reported_with_the_one_that_is_there(there: Served) -> None:
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
    other = await there.http.post(RECORDS, json={"type": "fact", "title": "x"}, headers={"Idempotency-Key": "k-1"})
    assert (other.status_code, other.json()["code"]) == (422, "key_taken")


async def test_another_record_with_a_taken_id_is_a_conflict_that_shows_the_one_that_is_there(there: Served) -> None:
    mine = {**LESSON, "id": "mine"}
    assert (await there.http.post(RECORDS, json=mine)).status_code == 201
    assert (await there.http.post(RECORDS, json=mine)).status_code == 200
    for headers in ({}, {"Idempotency-Key": "k-1"}):
        answer = await there.http.post(RECORDS, json={**mine, "title": "other"}, headers=headers)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (409, "conflict")
        assert problem["current"]["title"] == LESSON["title"]
    with pytest.raises(Conflict):
        await there.client.memory.add({**mine, "title": "other"})
    assert (await there.client.memory.add({**mine, "id": "free", "title": "other"}, key="k-1"))["added"]


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "\x1b[2J", "\u2028"], ids=ascii)
async def test_an_id_with_a_control_character_is_refused(plain: Served, name: str) -> None:
    answer = await plain.http.post(RECORDS, json={**LESSON, "id": name})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


async def test_a_look_up_with_a_damaged_index_answers(plain: Served) -> None:
    await plain.client.memory.add(LESSON)
    index = plain.p.settings.memory_state_dir / "memory.idx.sqlite"
    for number in range(5):
        assert len((await plain.client.memory.search("prices"))["matches"]) == 1
        with index.open("r+b") as file:
            file.seek(number * 4096)
            file.write(b"\xff" * 8192)
        assert len((await plain.client.memory.related(paths=["src"]))["matches"]) == 1
        assert (await plain.client.memory.status())["index"]["state"] == "current"


async def test_a_call_that_is_repeated_after_its_record_was_removed_says_so(there: Served) -> None:
    added = await there.client.memory.add(LESSON, key="k-1")
    found = await there.client.memory.add(LESSON, key="k-2")
    assert found["existing_id"] == added["id"]
    await there.client.memory.forget(added["id"])
    for key, did in (("k-1", "key stored the record"), ("k-2", "key was a duplicate of the record")):
        answer = await there.http.post(RECORDS, json=LESSON, headers={"Idempotency-Key": key})
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (410, "over")
        assert did in problem["detail"]
        with pytest.raises(NotFound, match="removed"):
            await there.client.memory.add(LESSON, key=key)
    assert (await there.client.memory.status())["records"] == 0, "what was forgotten stays so"


async def test_a_record_that_begins_like_one_that_was_removed_is_not_taken_for_it(there: Served) -> None:
    record = {"id": "lesson-1", "type": "fact", "title": "one"}
    await there.client.memory.add(record, key="k-1")
    await there.client.memory.add({"id": "lesson-11", "type": "fact", "title": "eleven"})
    assert (await there.client.memory.add(record, key="k-1"))["id"] == "lesson-1"
    await there.client.memory.forget("lesson-1")
    with pytest.raises(NotFound):
        await there.client.memory.add(record, key="k-1")


async def test_an_id_that_is_not_like_ours_can_be_shown_and_forgotten(plain: Served) -> None:
    for odd in ("a/b c?d#e", "ä %2F", "../../token", "..", ".", "x" * 200):
        answer = (await plain.http.post(RECORDS, json={"id": odd, "type": "fact", "title": odd})).json()
        assert answer["data"]["id"] == odd
        assert (await plain.http.get(plain.server.url + answer["_links"]["record"])).json()["data"]["title"] == odd
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
    (related,) = (await memory.related(sha="abc"))["matches"]
    assert related["record"]["type"] == "fact"
    await memory.add({"type": "revert", "title": "prices", "sha": "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"})
    (related,) = (await memory.related(sha="0a1b2c3d"))["matches"]
    assert related["record"]["type"] == "revert"
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


async def test_a_page_of_related_records_says_how_many_more_match(plain: Served) -> None:
    for number in range(7):
        await plain.client.memory.add({"type": "lesson", "title": f"Lesson {number}", "paths": ["a.py"]})
    first = (await plain.http.get("/memory/related?path=a.py&budget_ms=10000")).json()
    assert (len(first["data"]), first["meta"]["more"]) == (3, {"count": 4, "is_exact": True})
    second = (await plain.http.get(plain.server.url + first["_links"]["next"])).json()
    assert (len(second["data"]), second["meta"]["more"]) == (3, {"count": 1, "is_exact": True})
    last = (await plain.http.get(plain.server.url + second["_links"]["next"])).json()
    assert (len(last["data"]), "more" in last["meta"]) == (1, False)
    assert (await plain.client.memory.related(paths="a.py", limit=6, budget_ms=10_000))["more"] == {
        "count": 1,
        "is_exact": True,
    }
    assert "more" not in await plain.client.memory.related(paths="a.py", limit=7, budget_ms=10_000)


async def walked(plain: Served, path: str) -> list[list[str]]:
    """Follow the links to the next page, and return the titles on each; a busy machine has time for all of them."""
    pages = []
    url: str | None = f"{plain.server.url}/api/v1{path}&budget_ms=10000"
    while url is not None:
        answer = (await plain.http.get(url)).json()
        pages.append([match["record"]["title"] for match in answer["data"]])
        assert ("next" in answer["_links"]) == (answer["meta"]["next_cursor"] is not None)
        assert answer["meta"]["truncated"] is False
        url = plain.server.url + answer["_links"]["next"] if "next" in answer["_links"] else None
    return pages


async def test_matches_are_given_page_by_page_each_once_and_in_order(plain: Served) -> None:
    await plain.p.memory.add_many([{**LESSON, "title": f"prices {number}"} for number in range(7)], dedupe=False)
    for path in (f"{RECORDS}?text=prices", "/memory/related?path=src&text=prices"):
        (whole,) = await walked(plain, f"{path}&limit=7")
        assert len(whole) == 7
        pages = await walked(plain, f"{path}&limit=2")
        assert [len(page) for page in pages] == [2, 2, 2, 1]
        assert [title for page in pages for title in page] == whole
    assert [len(page) for page in await walked(plain, "/memory/related?path=src")] == [3, 3, 1], "memory.max_matches"


async def test_the_client_asks_for_the_next_matches_with_the_cursor_that_it_got(plain: Served) -> None:
    await plain.p.memory.add_many([{**LESSON, "title": f"prices {number}"} for number in range(3)], dedupe=False)
    memory = plain.client.memory
    first = await memory.search("prices", limit=2, budget_ms=10_000)
    rest = await memory.search("prices", limit=2, cursor=first["next_cursor"], budget_ms=10_000)
    assert (len(first["matches"]), len(rest["matches"]), "next_cursor" in rest) == (2, 1, False)
    near = await memory.related(paths="src", limit=2, budget_ms=10_000)
    more = await memory.related(paths=["src"], limit=2, cursor=near["next_cursor"], budget_ms=10_000)
    assert len({match["record"]["id"] for match in near["matches"] + more["matches"]}) == 3


async def test_cursors_lead_ten_thousand_places_deep_and_no_further(plain: Served) -> None:
    titles = [{"type": "fact", "title": f"prices {number}", "paths": ["a"]} for number in range(10_502)]
    await plain.p.memory.add_many(titles, dedupe=False)
    for path in (f"{RECORDS}?text=prices", "/memory/related?path=a"):
        deep, deepest = (cursor_of(path.partition("?")[0], f"after {place}") for place in (9500, 10000))
        page = f"{path}&limit=500&budget_ms=10000"
        last = (await plain.http.get(f"{page}&cursor={deep}", timeout=30)).json()
        assert (len(last["data"]), last["meta"]["next_cursor"]) == (500, deepest)
        after = (await plain.http.get(f"{page}&cursor={deepest}", timeout=30)).json()
        assert (len(after["data"]), after["meta"]["next_cursor"]) == (500, None)


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
async def test_a_record_that_is_invalid_is_refused_and_uses_up_no_key(plain: Served, record: Any) -> None:
    headers = {"Idempotency-Key": "k"}
    answer = await plain.http.post(RECORDS, json=record, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await plain.http.post(RECORDS, json=LESSON, headers=headers)).status_code == 201


@pytest.mark.parametrize(
    "query",
    [
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
        *(f"/memory/related?path=a&cursor={cursor}" for cursor in ("", "!", "Mg", "YWRh", "%ff", "x" * 1001)),
        *(
            f"/memory/records?text=x&cursor={cursor_of('/memory/records', place)}"
            for place in ("2", "after", "after 0", "after -1", "after 02", "after 10001", "after 99999", "after \u0663")
        ),
        "/memory/related?" + "&".join(["fingerprint=x"] * 51),
        "/memory/related?" + "&".join(["path=x"] * 1001),
    ],
)
async def test_a_parameter_that_is_invalid_is_refused(plain: Served, query: str) -> None:
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


async def test_settings_of_the_memory_that_are_invalid_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_RETENTION_DAYS", "never")
    async with served(tmp_path / "home", str(tmp_path / "perdure.db")) as found:
        with pytest.raises(Invalid, match="retention_days"):
            await found.client.memory.add(LESSON)
