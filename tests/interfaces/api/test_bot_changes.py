"""Bots over HTTP, on both databases: explained, rolled back, taken along as one file, checked; and their choices."""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from perdure.bots.archive import unpack_bot
from perdure.client import Client
from perdure.errors import Conflict, Invalid, NotFound
from tests.interfaces.api.serving import Served
from tests.interfaces.api.talks import ASKING, FIRST, built, finished


async def renamed(client: Client, name: str) -> dict[str, Any]:
    """Call the bot `ada` something else, which is version 2."""
    session = await client.builder.reconfigure("ada")
    await client.builder.answer(session["session_id"], {"free_text": "name"})
    asked = await client.builder.answer(session["session_id"], {"free_text": name})
    return dict(await client.builder.assemble(await finished(client, session["session_id"], asked["turn"])))


async def test_a_line_is_explained(there: Served, tmp_path: Path) -> None:
    await built(there.client)
    soul = tmp_path / "home" / "bots" / "ada" / "SOUL.md"
    lines = soul.read_text().splitlines()
    found = await there.client.bots.explain("ada", f"SOUL.md:{lines.index('name: Ada') + 1}")
    assert (found["path"], found["text"]) == ("SOUL.md", "name: Ada")
    assert found["source"] == {"kind": "description", "exchange": None}
    soul.write_text("\n".join([*lines, "By hand."]))
    assert (await there.client.bots.explain("ada", f"SOUL.md:{len(lines) + 1}"))["source"] is None
    for place in ("SOUL.md:0", "SOUL.md", "../SOUL.md:1"):
        with pytest.raises(Invalid):
            await there.client.bots.explain("ada", place)
    with pytest.raises(NotFound):
        await there.client.bots.explain("nobody", "SOUL.md:1")


async def test_a_rollback_makes_a_version_and_one_with_a_key_makes_one(there: Served, tmp_path: Path) -> None:
    await built(there.client)
    assert (await renamed(there.client, "Eve"))["version"] == 2
    soul = tmp_path / "home" / "bots" / "ada" / "SOUL.md"
    soul.write_text(soul.read_text() + "\nBy hand.\n")
    bots = there.client.bots
    first = await bots.rollback("ada", 1, key=f"back-{id(there)}")
    assert (first["version"], first["bot_name"]) == (3, "Ada")
    assert first["set_aside"] == ["SOUL.md.old"]
    assert await bots.rollback("ada", 1, key=f"back-{id(there)}") == first
    assert (await bots.rollback("ada", 1))["version"] == 4
    with pytest.raises(Conflict, match="back-"):
        await bots.rollback("ada", 2, key=f"back-{id(there)}")
    with pytest.raises(NotFound, match="no version 9"):
        await bots.rollback("ada", 9, key=f"none-{id(there)}")
    assert (await bots.rollback("ada", 2, key=f"none-{id(there)}"))["version"] == 5, "a rejected call frees its key"


async def test_a_bot_goes_through_one_file_and_comes_back_as_another(there: Served) -> None:
    await built(there.client)
    answer = (await there.http.get("/bots/ada/archive")).json()["data"]
    data = await there.client.bots.export("ada")
    assert (answer["slug"], answer["sha256"]) == ("ada", sha256(data).hexdigest())
    assert unpack_bot(data, "ada.zip").slug == "ada"
    first = await there.client.bots.load_archive(data, key=f"import-{id(there)}")
    assert (first["bot_slug"], first["version"]) == ("ada-2", 1)
    assert await there.client.bots.load_archive(data, key=f"import-{id(there)}") == first
    assert (await there.client.bots.load_archive(data))["bot_slug"] == "ada-3"
    created = await there.http.post("/bots", json={"archive": b64encode(data).decode()})
    assert (created.status_code, created.json()["_links"]["self"]) == (201, "/api/v1/bots/ada-4")


async def test_what_is_no_archive_is_refused_and_makes_nothing(there: Served) -> None:
    await built(there.client)
    data = await there.client.bots.export("ada")
    for wrong, why in ((b"", "incomplete"), (b"not a zip", "not an"), (data[:-30], "incomplete")):
        with pytest.raises(Invalid, match=f"{why} archive of a bot"):
            await there.client.bots.load_archive(wrong)
    for body in ({"archive": "!"}, {"archive": "ä"}, {"archive": 7}, {}, {"archive": "", "more": 1}):
        assert (await there.http.post("/bots", json=body)).status_code == 422, body
    with pytest.raises(Invalid, match="larger than"):
        await there.client.bots.load_archive(bytes(800_000))
    assert [bot["slug"] async for bot in there.client.bots.each()] == ["ada"]


async def test_what_is_wrong_with_the_files_of_a_bot_is_listed(there: Served, tmp_path: Path) -> None:
    await built(there.client)
    assert await there.client.bots.problems("ada") == {"slug": "ada", "problems": []}
    (tmp_path / "home" / "bots" / "ada" / "SOUL.md").write_text("no front matter")
    [problem] = (await there.client.bots.problems("ada"))["problems"]
    assert "SOUL.md" in problem


async def test_choices_are_removed_one_by_one_with_a_bot_or_all_at_once(there: Served) -> None:
    builder = there.client.builder
    for name in ("Ada", "Bob", "Cleo"):
        await built(there.client, f'a coding assistant called "{name}"')
    await there.client.bots.delete("ada", with_choices=True)
    await there.client.bots.delete("bob")
    choices = [choice async for choice in builder.choices(limit=1)]
    assert [choice["bot_slug"] for choice in choices] == ["cleo", "bob"]
    await builder.remove_choice(choices[0]["id"])
    for unknown in (choices[0]["id"], "../drafts"):
        with pytest.raises(NotFound):
            await builder.remove_choice(unknown)
    assert await builder.clear_choices() == 1
    assert [choice async for choice in builder.choices()] == []


async def test_a_session_is_found_by_a_prefix_and_resumed_by_its_whole_id(there: Served) -> None:
    builder = there.client.builder
    session_id = (await builder.start(ASKING))["session_id"]
    await builder.answer(session_id, FIRST)
    session = await builder.get(session_id[:-1], prefix=True)
    assert session == await builder.get(session_id) == await builder.resume(session_id)
    [said] = session["conversation"]
    assert (said["slot"], said["option_id"], said["option_ids"]) == ("name", "coding-assistant", [])
    for unknown in (session_id[:-1], "nothing"):
        with pytest.raises(NotFound):
            await builder.get(unknown)
        with pytest.raises(NotFound):
            await builder.resume(unknown)
    other = (await builder.start(ASKING))["session_id"]
    shared = next(n for n in range(36) if session_id[n] != other[n])
    with pytest.raises(Conflict, match="2 drafts") as caught:
        await builder.get(session_id[:shared], prefix=True)
    assert len(caught.value.errors) == 2
    with pytest.raises(NotFound, match="No draft has an id with the prefix"):
        await builder.get("zzz", prefix=True)


async def test_a_change_is_shown_before_it_is_built(there: Served) -> None:
    await built(there.client)
    session = await there.client.builder.reconfigure("ada", description="call it Eve")
    session_id, turn = session["session_id"], session["turn"]
    with pytest.raises(Conflict, match="not ready"):
        await there.client.builder.changes(session_id)
    assert (await there.client.builder.get(session_id))["initial_description"] == "call it Eve"
    await finished(there.client, session_id, turn)
    changes = await there.client.builder.changes(session_id)
    assert "+name: Eve" in changes["diffs"]["SOUL.md"]
    assert changes["clashes"] == []


async def test_a_change_of_a_bot_that_was_deleted_is_shown_and_not_resumed(there: Served) -> None:
    await built(there.client)
    session_id = (await there.client.builder.reconfigure("ada"))["session_id"]
    await there.client.bots.delete("ada")
    assert (await there.client.builder.get(session_id))["mode"] == "reconfigure"
    with pytest.raises(NotFound, match=f"perdure draft delete {session_id}"):
        await there.client.builder.resume(session_id)
