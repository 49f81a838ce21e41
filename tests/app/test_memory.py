"""`p.memory`: the memory of a home, from async code, with the settings applied and without a database."""

import asyncio
import hashlib
import threading
from contextlib import closing
from pathlib import Path

import pytest

from perdure import Perdure
from perdure.app.memory.memory import HomeMemory, open_memory
from perdure.errors import Conflict, Invalid, KeyTaken, NotFound, Over
from perdure.failpoints import armed
from perdure.kernel.ports import IdempotentCall
from perdure.memory.ingest.report import SourceRecords
from perdure.memory.log.lock import LogLock
from perdure.settings import load_settings

LESSON = {"type": "lesson", "title": "The cart caches prices", "paths": ["src/cart.py"]}


def memory(tmp_path: Path, config: str = "") -> HomeMemory:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(config)
    return HomeMemory(load_settings({"home": str(home)}))


async def test_what_was_added_is_found(tmp_path: Path) -> None:
    async with open_memory(load_settings()) as found:
        added = await found.add(LESSON)
        assert (await found.get(added["id"]))["title"] == LESSON["title"]
        (match,) = (await found.related(paths=["src/cart.py"]))["matches"]
        assert match["record"]["id"] == added["id"]
        assert [each["kind"] for each in match["why"]] == ["path"]
        (hit,) = (await found.search("caches prices"))["matches"]
        assert hit["record"]["id"] == added["id"]
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["state"], "no database is made"


async def test_a_write_whose_caller_has_given_up_is_not_done_later(tmp_path: Path) -> None:
    async with open_memory(load_settings()) as found:
        await found.add(LESSON)
        log = load_settings().memory_state_dir / "memory.jsonl"
        before = log.read_bytes()
        with closing(LogLock(log.with_name("memory.jsonl.lock"))) as lock, lock:
            writes = [
                found.add({"type": "fact", "title": "late"}),
                found.update("key", {"type": "fact", "title": "late"}),
                found.forget((await found.list())["records"][0]["id"]),
                found.import_lines([b'{"type": "fact", "title": "late"}']),
                found.add_many([{"type": "fact", "title": "late"}]),
                found.ingest(lambda: SourceRecords([{"type": "fact", "title": "late"}])),
            ]
            tasks = [asyncio.create_task(write) for write in writes]
            done, _ = await asyncio.wait(tasks, timeout=0.2)
            assert not done, "they wait for the lock"
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(result) for result in results] == [asyncio.CancelledError] * len(writes)
    assert log.read_bytes() == before, "closing waits for the threads, which have had the lock by now"
    assert not list(tmp_path.glob("home/state/archive/*"))


@pytest.mark.parametrize("verb", ["compact", "repair"])
async def test_a_rewrite_whose_caller_has_given_up_is_not_done_later(tmp_path: Path, verb: str) -> None:
    async with open_memory(load_settings()) as found:
        await found.add({**LESSON, "timestamp": "2001-01-01"})
        await found.add({"type": "fact", "title": "new"})
        log = load_settings().memory_state_dir / "memory.jsonl"
        with log.open("ab") as file:
            file.write(b"damaged\n")
        before = log.read_bytes()
        with closing(LogLock(log.with_name("memory.jsonl.lock"))) as lock, lock:
            task = asyncio.create_task(getattr(found, verb)())
            done, _ = await asyncio.wait([task], timeout=0.2)
            assert not done, "it waits for the lock"
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert log.read_bytes() == before
    assert not [*tmp_path.glob("home/state/archive/*"), *tmp_path.glob("home/state/quarantine/*")]


async def test_a_write_that_has_begun_is_awaited_by_the_caller_that_gives_up() -> None:
    async with open_memory(load_settings()) as found:
        begun, go_on = threading.Event(), threading.Event()

        def pause() -> None:
            begun.set()
            go_on.wait(10)

        with armed("memory.flush.before", pause):
            task = asyncio.create_task(found.add(LESSON))
            await asyncio.to_thread(begun.wait, 10)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=0.2)
            assert not done
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert len((await found.list())["records"]) == 1


async def test_the_memory_of_an_open_home_is_closed_with_it() -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    async with Perdure.open() as p:
        assert (await p.memory.add(LESSON))["added"]
        assert p.memory is p.memory
    assert len(list(Path("/dev/fd").iterdir())) == before


async def test_no_more_matches_are_given_than_the_setting_says(tmp_path: Path) -> None:
    found = memory(tmp_path, "[memory]\nmax_matches = 2")
    await found.add_many([{**LESSON, "title": str(number)} for number in range(4)])
    assert len((await found.related(paths=["src/cart.py"]))["matches"]) == 2
    assert len((await found.related(paths=["src/cart.py"], limit=3))["matches"]) == 3
    await found.close()


async def test_what_is_older_than_the_retention_is_not_related(tmp_path: Path) -> None:
    found = memory(tmp_path, "[memory]\nretention_days = 1")
    await found.add({**LESSON, "timestamp": "2020-01-01"})
    assert (await found.related(paths=["src/cart.py"]))["matches"] == []
    assert (await found.compact())["archived"] == 1
    await found.close()


async def test_a_memory_that_is_switched_off_neither_takes_nor_finds(tmp_path: Path) -> None:
    on, off = memory(tmp_path), memory(tmp_path, "[memory]\nenabled = false")
    added = await on.add(LESSON)
    assert await off.add({"type": "fact"}) == {"added": False, "reason": "disabled"}
    assert (await off.related(paths=["src/cart.py"])) == {"matches": [], "truncated": False, "disabled": True}
    assert (await off.search("cart"))["matches"] == []
    assert "switched off" in (await off.ingest(SourceRecords))["errors"][0]
    assert (await off.get(added["id"]))["title"] == LESSON["title"], "what is there can still be looked at"
    assert (await off.status())["enabled"] is False
    with pytest.raises(Conflict, match="switched off"):
        await off.import_lines([b"{}"])
    assert [record["id"] async for record in on.iter()] == [added["id"]]
    await on.close()
    await off.close()


async def test_settings_that_are_invalid_break_the_memory_and_nothing_else(tmp_path: Path) -> None:
    memory(tmp_path, "[memory]\nretention_days = 0")
    async with Perdure.open() as p:
        assert (await p.goals.list()) == []
        for call in (p.memory.add(LESSON), p.memory.get("x"), p.memory.related(text="x"), p.memory.status()):
            with pytest.raises(Invalid, match="memory.retention_days is '0'"):
                await call


async def test_records_are_given_one_by_one_however_many_there_are(tmp_path: Path) -> None:
    found = memory(tmp_path)
    await found.add_many([{"type": "fact", "title": str(number)} for number in range(450)])
    assert [int(record["title"]) async for record in found.iter()] == list(range(450))
    async for record in found.iter():
        assert record["title"] == "0"
        break
    assert len([line async for line in found.export()]) == 450
    await found.close()


async def test_a_record_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    found = memory(tmp_path)
    with pytest.raises(NotFound):
        await found.get("nothing")
    with pytest.raises(NotFound):
        await found.forget("nothing")
    await found.close()


async def test_a_record_that_is_forgotten_is_gone(tmp_path: Path) -> None:
    found = memory(tmp_path)
    added = await found.add(LESSON)
    await found.forget(added["id"])
    assert [record async for record in found.iter()] == []
    assert (await found.related(paths=["src/cart.py"]))["matches"] == []
    assert (await found.verify())["bad"] == []
    await found.close()


async def test_a_memory_goes_from_one_home_to_another(tmp_path: Path) -> None:
    found = memory(tmp_path)
    await found.add_many([{"type": "fact", "title": str(number)} for number in range(3)])
    lines = [line async for line in found.export()]
    await found.close()
    async with open_memory(load_settings({"home": str(tmp_path / "other")})) as other:
        assert (await other.import_lines(lines))["added"] == 3
        assert (await other.import_lines(lines))["skipped"] == 3


def call(body: object, key: str = "a-key") -> IdempotentCall:
    return IdempotentCall(key, "POST /memory/records", hashlib.sha256(repr(body).encode()).digest())


async def test_a_record_that_is_added_twice_under_a_key_is_there_once_with_one_answer() -> None:
    async with Perdure.open() as p:
        first = await p.memory.add_once(LESSON, call(LESSON))
        assert first["added"]
        assert await p.memory.add_once(LESSON, call(LESSON)) == first
        assert [record["id"] async for record in p.memory.iter()] == [first["id"]]
        other = await p.memory.add_once(LESSON, call(LESSON, "b-key"))
        assert other == {"added": False, "reason": "duplicate", "existing_id": first["id"]}


async def test_a_key_is_for_one_record() -> None:
    async with Perdure.open() as p:
        await p.memory.add_once(LESSON, call(LESSON))
        with pytest.raises(KeyTaken, match="a-key"):
            await p.memory.add_once({"type": "fact", "title": "other"}, call("other"))
        assert len([record async for record in p.memory.iter()]) == 1


async def test_a_record_that_is_invalid_uses_up_no_key() -> None:
    async with Perdure.open() as p:
        for wrong in ({"title": "no type"}, {"type": "fact", "summary": "x" * 1_100_000}):
            with pytest.raises(Invalid):
                await p.memory.add_once(wrong, call(wrong))
        assert (await p.memory.add_once(LESSON, call(LESSON)))["added"]


async def test_of_many_calls_at_once_under_a_key_one_adds_and_all_have_its_answer() -> None:
    async with Perdure.open() as p, Perdure.open() as other:
        calls = [each.memory.add_once(LESSON, call(LESSON)) for each in (p, other) * 4]
        answers = await asyncio.gather(*calls)
        assert [record["id"] async for record in p.memory.iter()] == [answers[0]["id"]]
        assert all(answer == {"added": True, "id": answers[0]["id"]} for answer in answers)


async def test_what_was_forgotten_does_not_come_back_because_the_call_is_repeated() -> None:
    async with Perdure.open() as p:
        added = await p.memory.add_once(LESSON, call(LESSON))
        await p.memory.forget(added["id"])
        with pytest.raises(Over, match=r"key stored the record [-0-9a-f]+, which was removed"):
            await p.memory.add_once(LESSON, call(LESSON))
        assert [record async for record in p.memory.iter()] == []


async def test_an_id_that_the_caller_chose_is_kept() -> None:
    async with Perdure.open() as p:
        mine = {**LESSON, "id": "my-own-id"}
        assert await p.memory.add_once(mine, call(mine)) == {"added": True, "id": "my-own-id"}
        assert (await p.memory.get("my-own-id"))["title"] == LESSON["title"]


async def test_keys_need_a_database(tmp_path: Path) -> None:
    found = memory(tmp_path)
    with pytest.raises(Invalid, match="without a database"):
        await found.add_once(LESSON, call(LESSON))
    await found.close()


async def test_a_taken_id_is_a_conflict_that_uses_up_no_key() -> None:
    async with Perdure.open() as p:
        mine = {**LESSON, "id": "my-own-id"}
        await p.memory.add(mine)
        other = {**mine, "title": "something else"}
        with pytest.raises(Conflict, match="'my-own-id' is taken"):
            await p.memory.add_once(other, call(other))
        free = {**other, "id": "another-id"}
        assert (await p.memory.add_once(free, call(free)))["added"]


async def test_a_record_with_an_id_that_is_sent_again_under_its_key_is_a_repeat() -> None:
    async with Perdure.open() as p:
        mine = {**LESSON, "id": "my-own-id"}
        for _ in range(2):
            assert await p.memory.add_once(mine, call(mine)) == {"added": True, "id": "my-own-id"}
        again = {"added": False, "reason": "duplicate", "existing_id": "my-own-id"}
        assert await p.memory.add_once(mine, call(mine, "b-key")) == again
