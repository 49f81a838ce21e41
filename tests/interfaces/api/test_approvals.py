"""What waits for a person, over HTTP: page by page, and beside a goal that is damaged; on both databases."""

import httpx

from perdure.client import Client
from perdure.store.raw import RawTransaction
from tests.interfaces.api.serving import Served
from tests.interfaces.api.test_goals import ASKS, waiting

MANY_ASKS = "goal: questions\nsteps:\n" + "".join(f"  - {{id: q{n}, ask: {{question: 'Sure?'}}}}\n" for n in range(3))


async def asking_thrice(client: Client) -> str:
    goal_id = (await client.goals.create(plan=MANY_ASKS))["id"]
    async for event in client.goals.follow(goal_id):
        if event["payload"].get("call_id") == "q2.1":
            break
    return goal_id


async def test_a_page_of_approvals_has_as_many_approvals_as_its_limit(there: Served) -> None:
    ids = [await asking_thrice(there.client) for _ in range(3)]
    pages = [(await there.http.get("/approvals?limit=2")).json()]
    while (cursor := pages[-1]["meta"]["next_cursor"]) is not None:
        pages.append((await there.http.get("/approvals", params={"limit": 2, "cursor": cursor})).json())
    assert [len(page["data"]) for page in pages] == [2, 2, 2, 2, 1]
    found = [(each["goal_id"], each["step"]) for page in pages for each in page["data"]]
    assert found == [(goal_id, f"q{n}") for goal_id in reversed(ids) for n in range(3)]


async def test_approvals_lead_on_when_the_goal_of_the_last_one_was_answered_meanwhile(there: Served) -> None:
    older, newer = [await asking_thrice(there.client) for _ in range(2)]
    page = (await there.http.get("/approvals?limit=1")).json()
    assert page["data"][0]["goal_id"] == newer
    await there.client.goals.cancel(newer)
    following = await there.http.get("/approvals", params={"cursor": page["meta"]["next_cursor"]})
    assert [each["goal_id"] for each in following.json()["data"]] == [older] * 3
    assert (await there.http.get("/approvals?cursor=eA")).status_code == 422


async def test_a_damaged_goal_hides_no_approval_of_another(there: Served) -> None:
    goal_ids = [await asking_thrice(there.client) for _ in range(3)]
    await damage(there, goal_ids[1])
    found = (await there.http.get("/approvals")).json()["data"]
    assert [each["goal_id"] for each in found] == [goal_ids[2]] * 3 + [goal_ids[1]] + [goal_ids[0]] * 3
    damaged = found[3]
    assert (damaged["kind"], damaged["call_id"], damaged["decisions"]) == ("damaged", None, [])
    assert f"Event 2 of {goal_ids[1]}" in damaged["why"]
    pages = [(await there.http.get("/approvals?limit=4")).json()]
    pages.append((await there.http.get("/approvals", params={"cursor": pages[0]["meta"]["next_cursor"]})).json())
    assert [each["kind"] for page in pages for each in page["data"]] == [each["kind"] for each in found]
    assert (await there.http.get(f"/goals/{goal_ids[1]}")).status_code == 200
    assert len((await there.http.get("/goals")).json()["data"]) == 3


async def damage(there: Served, goal_id: str) -> None:
    """Change what is stored as nobody should: no trigger keeps us from it."""
    database = there.p.database

    def edit(raw: RawTransaction) -> None:
        if there.p.settings.database_url.startswith("postgresql"):
            raw.execute("ALTER TABLE events DISABLE TRIGGER USER")
        else:
            names = raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for (name,) in names:
                raw.execute(f"DROP TRIGGER {name}")
        own = "goal_no = (SELECT goal_no FROM goals WHERE id = ?)"
        raw.execute(f"UPDATE events SET payload = '{{' WHERE seq = 2 AND {own}", goal_id)

    await database.write_raw(edit)


async def test_pages_of_approvals_are_linked(client: Client, known: httpx.AsyncClient) -> None:
    asks = [(await waiting(client, (await client.goals.create(plan=ASKS))["id"]))["id"] for _ in range(2)]
    page = (await known.get("/api/v1/approvals?limit=1")).json()
    found = page["data"]
    while page["meta"]["next_cursor"] is not None:
        assert "limit=1" in page["_links"]["next"]
        page = (await known.get(page["_links"]["next"])).json()
        found += page["data"]
    assert {each["goal_id"] for each in found} >= set(asks)
