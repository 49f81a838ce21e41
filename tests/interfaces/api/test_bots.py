"""Bots over HTTP, on both databases: looked at, and removed only as they were seen."""

import asyncio
import hashlib
import re
from pathlib import Path

import pytest

from perdure.bots.writing import hold_bots_lock
from perdure.errors import Conflict, Invalid, NotFound
from tests.interfaces.api.serving import Served, served
from tests.interfaces.api.talks import built, finished


@pytest.fixture
def bots_dir(tmp_path: Path) -> Path:
    return tmp_path / "home" / "bots"


async def changed(there: Served) -> None:
    """Change the temperature of the bot, over HTTP."""
    session = await there.client.builder.reconfigure("ada")
    await there.client.builder.answer(session["session_id"], {"free_text": "settings"})
    asked = await there.client.builder.answer(session["session_id"], {"free_text": "0.35"})
    await there.client.builder.assemble(await finished(there.client, session["session_id"], asked["turn"]))


async def etag(there: Served) -> str:
    return str((await there.http.get("/bots/ada")).headers["etag"])


async def deleted(there: Served, if_match: str) -> int:
    return (await there.http.delete("/bots/ada", headers={"If-Match": if_match})).status_code


def edit(bots_dir: Path, text: str = "\nMore.\n") -> None:
    soul = bots_dir / "ada" / "SOUL.md"
    soul.write_text(soul.read_text() + text)


async def test_a_bot_is_shown_with_an_etag_that_begins_with_its_version(there: Served) -> None:
    result = await built(there.client)
    answer = await there.http.get("/bots/ada")
    bot = answer.json()["data"]
    assert (answer.status_code, answer.headers["etag"]) == (200, f'"{bot["etag"]}"')
    assert re.fullmatch("1-[0-9a-f]{16}", bot["etag"])
    assert (bot["id"], bot["slug"], bot["name"], bot["version"]) == (result["bot_id"], "ada", "Ada", 1)
    assert bot["model_config"]["model"]
    assert bot["edits"] == {}
    assert "You are Ada." in bot["prompt"]
    assert set(bot["files"]) >= {"SOUL.md", "IDENTITY.md", "USER.md", "skills.toml"}
    assert await there.client.bots.get("ada") == bot


async def test_a_bot_has_the_form_that_is_described(there: Served) -> None:
    await built(there.client)
    described = (await there.http.get(f"{there.server.url}/openapi.json")).json()["components"]["schemas"]
    answers = {
        "Bot": "/bots/ada",
        "BotSummary": "/bots",
        "BotVersion": "/bots/ada/versions",
        "BotFile": "/bots/ada/files/SOUL.md",
        "BotExplanation": "/bots/ada/explanation?place=SOUL.md:1",
        "BotProblems": "/bots/ada/problems",
        "BotArchive": "/bots/ada/archive",
        "SkillSummary": "/skills",
        "Skill": "/skills/summarize",
    }
    for name, path in answers.items():
        data = (await there.http.get(path)).json()["data"]
        for each in data if isinstance(data, list) else [data]:
            assert set(each) == set(described[name]["properties"]) == set(described[name]["required"]), name


async def test_an_edit_by_hand_changes_the_etag_and_taking_it_back_too(there: Served, bots_dir: Path) -> None:
    await built(there.client)
    soul = bots_dir / "ada" / "SOUL.md"
    before, text = await etag(there), soul.read_text()
    seen = [before]
    for change in ("\nMore.\n", "\nStill more.\n"):
        edit(bots_dir, change)
        seen.append(await etag(there))
    assert len(set(seen)) == 3
    soul.write_text(text)
    assert await etag(there) == before


async def test_a_bot_that_was_edited_since_it_was_seen_is_not_removed(there: Served, bots_dir: Path) -> None:
    await built(there.client)
    before = await etag(there)
    edit(bots_dir)
    for stale in (before, '"1"'):
        answer = await there.http.delete("/bots/ada", headers={"If-Match": stale})
        assert (answer.status_code, answer.json()["code"]) == (412, "stale")
    with pytest.raises(Conflict, match="was changed meanwhile"):
        await there.client.bots.delete("ada", version=1)
    now = await there.client.bots.get("ada")
    await there.client.bots.delete("ada", etag=now["etag"])
    assert not (bots_dir / "ada").exists()


async def test_an_edit_made_while_the_deletion_waits_for_its_turn_is_seen(there: Served, bots_dir: Path) -> None:
    await built(there.client)
    before = await etag(there)
    async with hold_bots_lock(bots_dir):
        deletion = asyncio.create_task(deleted(there, before))
        assert (await there.http.get("/bots/ada")).status_code == 200, "the deletion has come in by then"
        edit(bots_dir)
    assert await deletion == 412
    assert await deleted(there, await etag(there)) == 200


async def test_a_bot_whose_files_cannot_be_read_any_more_is_not_as_it_was_seen(there: Served, bots_dir: Path) -> None:
    await built(there.client)
    before = await etag(there)
    (bots_dir / "ada" / "skills.toml").write_text("[[[")
    assert [await deleted(there, stale) for stale in (before, '"1"')] == [412, 412]
    (bots_dir / "ada").rename(bots_dir / "elsewhere")
    assert [await deleted(there, stale) for stale in (before, '"1"')] == [412, 412]
    assert await deleted(there, "*") == 200


async def test_a_bot_that_was_built_again_under_the_same_slug_is_another(there: Served) -> None:
    await built(there.client)
    before = await etag(there)
    await there.client.bots.delete("ada", version=1)
    await built(there.client)
    assert await etag(there) != before
    assert await deleted(there, before) == 412


async def test_versions_are_listed_page_by_page(there: Served) -> None:
    await built(there.client)
    for _ in range(3):
        await there.p.bots.rollback("ada", 1)
    first = (await there.http.get("/bots/ada/versions?limit=2")).json()
    assert [version["number"] for version in first["data"]] == [4, 3]
    assert first["_links"]["bot"] == "/api/v1/bots/ada"
    rest = (await there.http.get(f"{there.server.url}{first['_links']['next']}")).json()
    assert ([version["number"] for version in rest["data"]], rest["meta"]["next_cursor"]) == ([2, 1], None)
    assert [version["number"] for version in await there.client.bots.versions("ada", limit=1)] == [4, 3, 2, 1]
    for wrong in ("cursor=!", "cursor=", "cursor=YWRh", "cursor=LTE", "cursor=MDE", "limit=0", "limit=501"):
        assert (await there.http.get(f"/bots/ada/versions?{wrong}")).status_code == 422, wrong


async def test_versions_say_which_files_were_edited_by_hand_and_a_rollback_keeps_their_text(
    there: Served, bots_dir: Path
) -> None:
    await built(there.client)
    before = (await there.client.bots.file("ada", "SOUL.md"))["text"]
    edit(bots_dir, "\nBy hand.\n")
    await changed(there)
    edited = (await there.client.bots.file("ada", "SOUL.md"))["text"]
    assert "By hand." in edited
    versions = (await there.http.get("/bots/ada/versions")).json()["data"]
    assert [each["hand_edits"] for each in versions] == [["SOUL.md"], []]
    result = (await there.http.post("/bots/ada/rollback", json={"version": 1})).json()["data"]["result"]
    assert (result["version"], result["set_aside"]) == (3, ["SOUL.md.old"])
    assert (await there.client.bots.file("ada", "SOUL.md"))["text"] == before
    assert (bots_dir / "ada" / "SOUL.md.old").read_text() == edited


async def test_bots_are_listed_by_slug_page_by_page(there: Served) -> None:
    for name in ("Cleo", "Ada", "Bob"):
        await built(there.client, f'a coding assistant called "{name}"')
    assert [bot["slug"] async for bot in there.client.bots.each(limit=1)] == ["ada", "bob", "cleo"]
    first = (await there.http.get("/bots?limit=2")).json()
    assert [bot["slug"] for bot in first["data"]] == ["ada", "bob"]
    rest = (await there.http.get(f"/bots?limit=2&cursor={first['meta']['next_cursor']}")).json()
    assert ([bot["slug"] for bot in rest["data"]], rest["meta"]["next_cursor"]) == (["cleo"], None)
    whole = (await there.http.get("/bots?limit=3")).json()
    assert (len(whole["data"]), whole["meta"]["next_cursor"]) == (3, None), "nothing is after the last"
    for made_up in ("!", "", "AA", "QWRh", "Li4"):
        assert (await there.http.get(f"/bots?cursor={made_up}")).status_code == 422, made_up


async def test_each_file_is_shown_as_it_is_on_disk(there: Served, bots_dir: Path) -> None:
    await built(there.client)
    bot = await there.client.bots.get("ada")
    for name in bot["files"]:
        file = await there.client.bots.file("ada", name)
        data = (bots_dir / "ada" / name).read_bytes()
        assert (file["name"], file["text"].encode()) == (name, data)
        assert file["sha256"] == hashlib.sha256(data).hexdigest()
    user = bots_dir / "ada" / "USER.md"
    user.write_text(user.read_text() + "\nMore.\n")
    assert (await there.client.bots.file("ada", "USER.md"))["text"].endswith("\nMore.\n")
    assert "+More." in (await there.client.bots.get("ada"))["edits"]["USER.md"]


NO_FILES = (
    *("", "nothing", "SOUL.MD", "SOUL.md/", "SOUL.md.new", "skills", "skills/none/SKILL.md"),
    *("../ada/SOUL.md", "..%2f..%2ftoken", "%2e%2e/%2e%2e/token", "/etc/passwd", "%2fetc%2fpasswd", "....//token"),
    *("SOUL.md%00", "%00", "%5c..%5ctoken", "..%5c..%5ctoken", "C:%5ctoken", "SOUL%0a.md", "%ff", "x" * 5000),
)


async def test_what_is_no_file_of_the_bot_is_not_found(tmp_path: Path) -> None:
    async with served(tmp_path / "home", str(tmp_path / "perdure.db")) as found:
        await built(found.client)
        for name in NO_FILES:
            answer = await found.http.get(f"/bots/ada/files/{name}")
            assert answer.status_code == 404, name


async def test_a_file_that_is_beside_the_bot_or_a_link_is_not_shown(there: Served, bots_dir: Path) -> None:
    await built(there.client)
    folder = bots_dir / "ada"
    (folder / "skills" / "stray").mkdir(parents=True)
    (folder / "skills" / "stray" / "SKILL.md").write_text("not named in skills.toml")
    with pytest.raises(NotFound):
        await there.client.bots.file("ada", "skills/stray/SKILL.md")
    (folder / "USER.md").unlink()
    (folder / "USER.md").symlink_to(bots_dir.parent / "token")
    with pytest.raises(Invalid, match="a link is not followed"):
        await there.client.bots.file("ada", "USER.md")


async def test_the_files_of_a_broken_bot_can_still_be_looked_at(there: Served, bots_dir: Path) -> None:
    await built(there.client)
    (bots_dir / "ada" / "skills.toml").write_text("[[[")
    with pytest.raises(Invalid, match="skills.toml"):
        await there.client.bots.get("ada")
    assert (await there.client.bots.file("ada", "skills.toml"))["text"] == "[[["


@pytest.mark.parametrize("form", ["W/{}", '"7", {}', '{}, "1"', "*"])
async def test_a_bot_is_removed_when_one_of_several_or_weak_tags_is_its_own(there: Served, form: str) -> None:
    await built(there.client)
    for broken in ("2", (await etag(there)).strip('"'), "9" * 999):
        assert await deleted(there, broken) == 422
    assert await deleted(there, form.format(await etag(there))) == 200


async def test_a_changed_bot_has_two_versions_and_is_removed_only_as_it_was_seen(there: Served, bots_dir: Path) -> None:
    await built(there.client)
    await changed(there)
    assert [version["number"] for version in await there.client.bots.versions("ada")] == [2, 1]
    seen = await etag(there)
    wrong = ('"1"', '"7"', '""', '"x"', '"2-"', '"2-00"', '"02"', 'W/"1"', '"7", "1", "x"')
    for stale in (*wrong, f'"1{seen[2:]}', f'"2-{"0" * 16}"', '"' + "9" * 999 + '"'):
        answer = await there.http.delete("/bots/ada", headers={"If-Match": stale})
        assert (answer.status_code, answer.json()["code"]) == (412, "stale")
    with pytest.raises(Conflict):
        await there.client.bots.delete("ada", version=1)
    assert (bots_dir / "ada" / "SOUL.md").exists()
    await there.client.bots.delete("ada", version=2)
    assert not (bots_dir / "ada").exists()
    with pytest.raises(NotFound):
        await there.client.bots.delete("ada", version=2)


async def test_a_bot_is_removed_without_saying_which_version(there: Served) -> None:
    await built(there.client)
    answer = await there.http.delete("/bots/ada")
    assert answer.json()["data"] == {"deleted": True, "slug": "ada"}
    assert [bot async for bot in there.client.bots.each()] == []


async def test_what_is_no_bot_is_not_found(tmp_path: Path) -> None:
    async with served(tmp_path / "home", str(tmp_path / "perdure.db")) as found:
        for slug in ("nobody", "Ada", "..", "%2e%2e", "a%2fb", "a%00", "con", "x" * 65, "ä", "-"):
            ways = ("", "/versions", "/files/SOUL.md", "/explanation?place=SOUL.md:1", "/problems", "/archive")
            for method, path in (*(("GET", way) for way in ways), ("DELETE", ""), ("POST", "/rollback")):
                body = {"version": 1} if method == "POST" else None
                answer = await found.http.request(method, f"/bots/{slug}{path}", json=body)
                assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), slug
