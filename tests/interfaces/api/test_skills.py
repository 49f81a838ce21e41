"""Skills over HTTP and over the chat: listed, shown, and made in the course of a session."""

import asyncio
import uuid
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, NotFound
from tests.interfaces.api.serving import Served
from tests.interfaces.api.talks import CODING, built, ready

MONEY = "Convert amounts between currencies"
NAME = "convert-amounts-between-currencies"


async def begun(client: Any) -> str:
    return str((await client.builder.start(CODING))["session_id"])


async def test_a_skill_made_in_a_session_is_listed_shown_and_the_same_when_asked_for_again(there: Served) -> None:
    client = there.client
    session = await begun(client)
    can = ["calculate"]
    calls = [client.builder.create_skill(session, MONEY, capabilities=can, key="k-1") for _ in range(4)]
    results = await asyncio.gather(*calls)
    path = f"skills/{NAME}/SKILL.md"
    made = {"name": NAME, "description": MONEY, "origin": "builder-created", "path": path}
    assert results == [{**made, "capabilities": [{"name": "calculate", "reason": "you asked for it"}]}] * 4
    assert (there.p.settings.home / path).exists()
    (listed,) = [each for each in await client.bots.skills() if each["origin"] != "builtin"]
    assert listed["name"] == NAME
    assert "- calculate: " in (await client.bots.skill(NAME))["instructions"]
    with pytest.raises(Conflict):
        await client.builder.create_skill(session, "Something else", name=NAME)
    answer = await there.http.post(
        f"/builder/sessions/{session}/create-skill",
        json={"skill_request": {"description": "other"}},
        headers={"Idempotency-Key": "k-1"},
    )
    assert answer.status_code == 422, "the key names another call"
    status = await there.http.post(
        f"/builder/sessions/{session}/create-skill", json={"skill_request": {"name": "summarize", "description": "x"}}
    )
    assert (status.status_code, status.json()["code"]) == (409, "conflict")


async def test_skills_are_listed_by_name_page_by_page(plain: Served) -> None:
    session = await begun(plain.client)
    await plain.client.builder.create_skill(session, MONEY, name="aaa")
    first = (await plain.http.get("/skills?limit=3")).json()
    assert first["data"][0]["name"] == "aaa"
    names = [each["name"] for each in first["data"]]
    while (cursor := first["meta"]["next_cursor"]) is not None:
        first = (await plain.http.get(f"/skills?limit=3&cursor={cursor}")).json()
        names += [each["name"] for each in first["data"]]
    assert names == sorted({each["name"] for each in await plain.client.bots.skills()})
    assert {"aaa", "summarize", "web-search"} <= set(names)
    whole = (await plain.http.get(f"/skills?limit={len(names)}")).json()
    assert (len(whole["data"]), whole["meta"]["next_cursor"]) == (len(names), None), "nothing is after the last"
    for made_up in ("!", "", "AA", "QWRh", "Li4"):
        assert (await plain.http.get(f"/skills?cursor={made_up}")).status_code == 422, made_up


async def test_what_is_no_skill_is_not_found(plain: Served) -> None:
    for name in ("nothing", "..", "%2e%2e", "a%2fb", "Summarize", "a%00", "con", "x" * 65, "%ff"):
        answer = await plain.http.get(f"/skills/{name}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), name


@pytest.mark.parametrize(
    "body",
    [
        *({}, {"skill_request": None}, {"skill_request": {}}, {"skill_request": {"description": ""}}, [], None),
        *({"skill_request": {"description": "x", "name": name}} for name in ("", "A", "../a", "con", "x" * 65)),
        *({"skill_request": {"description": "x", "capabilities": each}} for each in ("x", [""], ["x"] * 21, [1])),
        {"skill_request": {"description": "x", "more": 1}},
        {"skill_request": {"description": "x" * 10_001}},
        {"skill_request": {"description": "\x1b[2J"}},
    ],
)
async def test_a_request_that_is_invalid_is_refused(plain: Served, body: Any) -> None:
    session = await begun(plain.client)
    answer = await plain.http.post(f"/builder/sessions/{session}/create-skill", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert not (plain.p.settings.home / "skills").exists()


async def test_a_skill_needs_a_session_that_is_there_and_not_over(plain: Served) -> None:
    for unknown in (str(uuid.uuid4()), "nothing"):
        with pytest.raises(NotFound):
            await plain.client.builder.create_skill(unknown, MONEY)
    session = await ready(plain.client)
    await plain.client.builder.assemble(session)
    answer = await plain.http.post(
        f"/builder/sessions/{session}/create-skill", json={"skill_request": {"description": MONEY}}
    )
    assert (answer.status_code, answer.json()["code"]) == (410, "over")


async def test_a_skill_is_made_over_the_chat_and_attached_by_an_edited_config(there: Served) -> None:
    client = there.client
    session = await ready(client)
    turn = (await client.builder.get(session))["turn"]
    async with client.builder.chat(session) as chat:
        made = await chat.create_skill(MONEY, name="money", capabilities=["calculate"])
        assert (made["name"], made["origin"]) == ("money", "builder-created")
        assert await chat.create_skill(MONEY, name="money", capabilities=["calculate"]) == made
        with pytest.raises(Conflict):
            await chat.create_skill("Something else", name="money")
        with pytest.raises(Invalid):
            await chat.create_skill("x", name="../money")
        config = turn["config"]
        chosen = [*config["skills"], {"name": "money", "description": MONEY, "skill_type": "builder-created"}]
        result = await chat.assemble({**config, "skills": chosen})
    assert "money" in result["skills_attached"]
    text = (await client.bots.file("ada", "skills/money/SKILL.md"))["text"]
    assert text == (there.p.settings.home / "skills" / "money" / "SKILL.md").read_text()


async def test_a_bot_is_built_though_a_skill_of_the_home_is_broken(plain: Served) -> None:
    broken = plain.p.settings.home / "skills" / "broken"
    broken.mkdir(parents=True)
    (broken / "SKILL.md").write_bytes(b"\xff")
    assert (await built(plain.client))["bot_slug"] == "ada"
    assert (await plain.http.get("/skills/broken")).status_code == 422
