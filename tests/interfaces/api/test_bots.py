"""Bots over HTTP, on both databases: looked at, and removed only as they were seen."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.errors import Conflict, Invalid, NotFound
from tests.interfaces.api.serving import Served, served
from tests.interfaces.api.talks import built, finished


@pytest.fixture
async def there(tmp_path: Path, database_url: str) -> AsyncIterator[Served]:
    async with served(tmp_path / "home", database_url) as found:
        yield found


@pytest.fixture
def bots_dir(tmp_path: Path) -> Path:
    return tmp_path / "home" / "bots"


async def test_a_bot_is_shown_with_its_version_as_etag(there: Served) -> None:
    result = await built(there.client)
    answer = await there.http.get("/bots/ada")
    assert (answer.status_code, answer.headers["etag"]) == (200, '"1"')
    bot = answer.json()["data"]
    assert (bot["id"], bot["slug"], bot["name"], bot["version"]) == (result["bot_id"], "ada", "Ada", 1)
    assert bot["model_config"]["model"]
    assert bot["edits"] == {}
    assert "You are Ada." in bot["prompt"]
    assert set(bot["files"]) >= {"SOUL.md", "IDENTITY.md", "USER.md", "skills.toml"}
    assert await there.client.bots.get("ada") == bot


async def test_bots_are_listed_by_slug_page_by_page(there: Served) -> None:
    for name in ("Cleo", "Ada", "Bob"):
        await built(there.client, f'a coding assistant called "{name}"')
    assert [bot["slug"] async for bot in there.client.bots.each(limit=1)] == ["ada", "bob", "cleo"]
    first = (await there.http.get("/bots?limit=2")).json()
    assert [bot["slug"] for bot in first["data"]] == ["ada", "bob"]
    rest = (await there.http.get(f"/bots?limit=2&cursor={first['meta']['next_cursor']}")).json()
    assert ([bot["slug"] for bot in rest["data"]], rest["meta"]["next_cursor"]) == (["cleo"], None)
    assert (await there.http.get("/bots?cursor=!")).status_code == 422
    assert (await there.http.get("/bots?cursor=AA")).status_code == 422, "a slug has no NUL"


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


async def test_a_changed_bot_has_two_versions_and_is_removed_only_as_it_was_seen(there: Served, bots_dir: Path) -> None:
    await built(there.client)
    session = await there.client.builder.reconfigure("ada")
    await there.client.builder.assemble(await finished(there.client, session["session_id"], session["turn"]))
    assert [version["number"] for version in await there.client.bots.versions("ada")] == [2, 1]
    for stale in ('"1"', '"7"', "2", 'W/"2"', '"x"'):
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
            for method, path in (("GET", ""), ("GET", "/versions"), ("GET", "/files/SOUL.md"), ("DELETE", "")):
                answer = await found.http.request(method, f"/bots/{slug}{path}")
                assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), slug
