"""Goals over HTTP, on a real server: as specified, on both databases."""

import asyncio
import secrets
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Message

from perdure import Conflict, Invalid, NotFound
from perdure.app import Perdure
from perdure.app.wire.goal_view import QUEUED
from perdure.client import Client, Goal
from perdure.interfaces.api.app import make_app
from perdure.interfaces.api.server import Running
from tests.interfaces.api.serving import Served, served

ASKS = 'goal: a question\nsteps:\n  - id: sure\n    ask: {question: "Publish?", options: ["yes", "no"]}\n'
WAITS = "goal: a signal\nsteps:\n  - id: nap\n    wait: 1h\n"


async def ended(client: Client, goal_id: str) -> Goal:
    """Follow a goal to its end, or to where it waits."""
    async for event in client.goals.follow(goal_id):
        if event["type"] == "termination":
            break
    return await client.goals.get(goal_id)


def as_goal(goal: Goal) -> dict[str, Any]:
    """Return of a goal in detail what every answer about the goal has."""
    whole = {**goal}
    return {key: whole[key] for key in Goal.__annotations__}


async def waiting(client: Client, goal_id: str) -> Goal:
    async for event in client.goals.follow(goal_id):
        if event["payload"].get("kind") in ("ask", "wait"):
            break
    return await client.goals.get(goal_id)


async def test_a_goal_is_durable_when_it_is_answered_and_runs_in_a_folder_of_its_own(
    client: Client, home: Perdure
) -> None:
    goal = await client.goals.create(command=f"{sys.executable} -c 'import os; print(os.getcwd())'")
    assert (await home.goals.find(goal["id"])).summary.queue == "server"
    done = await ended(client, goal["id"])
    assert done["status"] == "done"
    assert done["output"]["stdout"].strip() == str(home.settings.home / "work" / goal["id"])


async def test_the_envelope_is_as_specified(known: httpx.AsyncClient) -> None:
    made = await known.post("/api/v1/goals", json={"command": "echo hello"})
    assert made.status_code == 201
    body = made.json()
    assert body.keys() == {"data", "meta", "_links"}
    assert body["meta"].keys() == {"request_id", "timestamp", "response_time_ms"}
    assert made.headers["x-request-id"] == body["meta"]["request_id"]
    fields = (
        "id key text mind flow bot queue workdir status reason detail waiting_for due_at next_attempt_at tags"
        " created_at updated_at last_seq steps cost_usd tokens parent forked_from output error next"
    )
    assert body["data"].keys() == {*fields.split()}
    missing = await known.get("/api/v1/goals/nothing")
    assert missing.status_code == 404
    assert missing.headers["content-type"] == "application/problem+json"
    problem = missing.json()
    assert problem.keys() == {"type", "title", "status", "detail", "code", "errors", "instance", "meta"}
    assert (problem["code"], problem["status"]) == ("not_found", 404)
    assert problem["instance"] == "/api/v1/goals/nothing"
    assert problem["meta"]["request_id"] == missing.headers["x-request-id"]


async def test_the_same_key_starts_one_goal_and_another_body_is_refused(
    client: Client, known: httpx.AsyncClient
) -> None:
    key = f"start-{id(client)}"
    first = await client.goals.create(command="echo one", key=key)
    again = await client.goals.create(command="echo one", key=key)
    assert again["id"] == first["id"]
    with pytest.raises(Conflict, match="another call"):
        await client.goals.create(command="echo two", key=key)
    other = await known.post("/api/v1/goals", json={"command": "echo two"}, headers={"Idempotency-Key": key})
    assert other.status_code == 422
    many = await asyncio.gather(*[client.goals.create(command="echo many", key=f"{key}-many") for _ in range(8)])
    assert len({goal["id"] for goal in many}) == 1


async def test_a_goal_has_the_tags_that_it_was_started_with(client: Client) -> None:
    goal = await client.goals.create(command="true", tags=["team:shop", "größe/2"])
    assert (await ended(client, goal["id"]))["tags"] == ["team:shop", "größe/2"]
    for wrong in (["a b"], ["a", "a"], [""], ["a\n"], [str(number) for number in range(21)]):
        with pytest.raises(Invalid):
            await client.goals.create(command="true", tags=wrong)


async def test_an_answer_lets_a_goal_of_the_server_continue_by_itself(client: Client) -> None:
    goal = await client.goals.create(plan=ASKS)
    assert (await waiting(client, goal["id"]))["waiting_for"] == "person"
    (asked,) = [each for each in await client.goals.approvals() if each["goal_id"] == goal["id"]]
    assert (asked["kind"], asked["question"], asked["options"]) == ("question", "Publish?", ["yes", "no"])
    assert asked["decisions"] == ["answer"]
    with pytest.raises(Invalid, match="is not an answer"):
        await client.goals.decide(goal["id"], "answer", value="maybe")
    with pytest.raises(Conflict):
        await client.goals.decide(goal["id"], "retry")
    await client.goals.decide(goal["id"], "answer", value="yes", key=f"k-{goal['id']}")
    assert (await ended(client, goal["id"]))["status"] == "done"
    again = await client.goals.decide(goal["id"], "answer", value="yes", key=f"k-{goal['id']}")
    assert again["status"] == "done"
    with pytest.raises(Conflict, match="another call"):
        await client.goals.decide(goal["id"], "answer", value="no", key=f"k-{goal['id']}")
    events = [event async for event in client.goals.events(goal["id"])]
    assert [event["type"] for event in events].count("decision") == 1


async def test_a_signal_is_reported_once_and_a_cancelled_goal_has_ended(client: Client) -> None:
    goal = await client.goals.create(plan=WAITS)
    await waiting(client, goal["id"])
    for _ in range(2):
        await client.goals.signal(goal["id"], "paid", {"order": 7}, key=f"s-{goal['id']}")
    with pytest.raises(Conflict):
        await client.goals.signal(goal["id"], "paid", {"order": 8}, key=f"s-{goal['id']}")
    events = [event async for event in client.goals.events(goal["id"])]
    assert [event["type"] for event in events].count("signal") == 1
    for _ in range(2):
        assert (await client.goals.cancel(goal["id"], key=f"c-{goal['id']}"))["reason"] == "cancelled"
    with pytest.raises(Conflict):
        await client.goals.cancel(goal["id"])


async def test_a_fork_does_not_run_until_it_is_resumed(client: Client, home: Perdure, known: httpx.AsyncClient) -> None:
    goal = await client.goals.create(plan=ASKS)
    await waiting(client, goal["id"])
    fork = await client.goals.fork(goal["id"], 1, key=f"f-{goal['id']}")
    assert (await client.goals.fork(goal["id"], 1, key=f"f-{goal['id']}"))["id"] == fork["id"]
    assert fork["forked_from"] == {"goal_id": goal["id"], "seq": 1}
    assert (await home.goals.find(fork["id"])).summary.queue == "cli"
    with pytest.raises(Conflict):
        await client.goals.fork(goal["id"], 99)
    resume, named = f"/api/v1/goals/{fork['id']}/resume", {"Idempotency-Key": f"r-{fork['id']}"}
    for _ in range(2):
        assert (await known.post(resume, json={}, headers=named)).status_code == 200
    assert (await known.post(resume, json={"limits": {"seconds": 9}}, headers=named)).status_code == 422
    assert (await waiting(client, fork["id"]))["status"] == "waiting"
    assert (await home.goals.find(fork["id"])).summary.queue == "server"


async def test_goals_are_listed_page_by_page(client: Client, known: httpx.AsyncClient) -> None:
    made = [(await client.goals.create(plan=ASKS))["id"] for _ in range(5)]
    for goal_id in made:
        await waiting(client, goal_id)
    listed = [goal["id"] async for goal in client.goals.each(status="waiting", limit=2)]
    assert [each for each in listed if each in made] == made[::-1]
    page = (await known.get("/api/v1/goals", params={"limit": 2, "status": "waiting"})).json()
    following = (await known.get(page["_links"]["next"])).json()
    assert [goal["id"] for goal in (*page["data"], *following["data"])] == listed[:4]
    assert (await known.get("/api/v1/goals", params={"cursor": "made up!"})).status_code == 422
    assert (await known.get("/api/v1/goals", params={"limit": 0})).status_code == 422
    assert (await known.get("/api/v1/goals", params={"status": "sleepy"})).status_code == 422


BAD: list[dict[str, Any]] = [
    {},
    {"command": "echo", "plan": ASKS},
    {"text": ""},
    {"text": "  "},
    {"command": ""},
    {"command": []},
    {"command": ["echo", 7]},
    {"command": ["echo"], "shell": True},
    {"command": "echo", "model": "openai:any"},
    {"text": "Say hello.", "command": "echo"},
    {"text": "Say hello.", "shell": True},
    {"text": "Say hello.", "model": "no-provider"},
    {"text": 7},
    {"command": "echo", "args": []},
    {"plan": ASKS, "shell": True},
    {"plan": "goal: [\n"},
    {"plan": "goal: x\nsteps: [{id: a, fly: high}]\n"},
    {"command": "echo", "unknown": 1},
    {"command": "echo", "limits": {"iterations": 0}},
    {"command": "echo", "limits": {"usd": -1}},
    {"command": "echo", "bot": "nobody"},
    {"command": "echo 'unbalanced"},
]


@pytest.mark.parametrize("body", BAD, ids=str)
async def test_what_is_invalid_is_refused_and_nothing_is_started(
    known: httpx.AsyncClient, home: Perdure, body: dict[str, Any]
) -> None:
    before = [goal.id for goal in await home.goals.list(limit=500)]
    answer = await known.post("/api/v1/goals", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "invalid"
    assert [goal.id for goal in await home.goals.list(limit=500)] == before


async def test_only_flows_that_the_settings_name_may_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Client, known: httpx.AsyncClient
) -> None:
    del client
    answer = await known.post("/api/v1/goals", json={"flow": "os:system", "args": ["true"]})
    assert answer.status_code == 403
    assert "flows" in answer.json()["detail"]
    monkeypatch.syspath_prepend(tmp_path)
    assert (await known.post("/api/v1/goals", json={"flow": "nightly:nightly"})).status_code == 403


async def test_a_terminals_goal_is_left_alone_until_it_is_resumed_here(client: Client, home: Perdure) -> None:
    ran = await home.goals.run(["true"])
    with pytest.raises(NotFound):
        await client.goals.get("20200101-000000-nothing-aaaa")
    assert (await client.goals.resume(ran.id))["status"] == "done"


async def test_more_goals_than_the_server_runs_at_once_are_queued_and_too_many_refused(
    client: Client, known: httpx.AsyncClient, server: Running
) -> None:
    serving = server.surface.worker
    serving.most = 1
    first = await client.goals.create(command="sleep 60")
    second = await client.goals.create(command="sleep 60")
    assert (second["status"], second["detail"]) == ("interrupted", QUEUED)
    serving.most_queued = 1
    refused = await known.post("/api/v1/goals", json={"command": "true"})
    assert (refused.status_code, refused.json()["code"]) == (429, "exhausted")
    assert int(refused.headers["retry-after"]) > 0
    for goal in (second, first):
        cancelled = await client.goals.cancel(goal["id"])
        assert (cancelled["status"], cancelled["reason"]) == ("cancelled", "cancelled")


async def test_a_cancel_answers_with_the_goal_as_it_leaves_it(client: Client, known: httpx.AsyncClient) -> None:
    goal = await client.goals.create(command="sleep 60")
    async for event in client.goals.follow(goal["id"]):
        if event["payload"].get("call_id"):
            break
    headers = {"Idempotency-Key": f"cancel-{goal['id']}"}
    first = await known.post(f"/api/v1/goals/{goal['id']}/cancel", headers=headers)
    again = await known.post(f"/api/v1/goals/{goal['id']}/cancel", headers=headers)
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["data"] == again.json()["data"] == as_goal(await client.goals.get(goal["id"]))
    assert (first.json()["data"]["status"], first.json()["data"]["reason"]) == ("cancelled", "cancelled")


async def test_the_server_answers_while_the_module_of_a_flow_blocks_at_its_import(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"imported_{secrets.token_hex(4)}"
    wait = f"import pathlib, time\nwhile not pathlib.Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.01)\n"
    body = "from perdure import flow\n@flow\nasync def nightly(goal): return 7\n"
    (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'begun')!r}, 'w').close()\n{wait}{body}")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text(f'flows = "{module}:nightly"\n')
    async with served(tmp_path / "home", database_url) as there, asyncio.timeout(20):
        starting = asyncio.create_task(there.client.goals.create(flow=f"{module}:nightly"))
        while not (tmp_path / "begun").exists():  # noqa: ASYNC110 (it comes from another thread)
            await asyncio.sleep(0.01)
        assert (await there.client.goals.create(command="true"))["status"] == "running"
        assert not starting.done()
        (tmp_path / "go").touch()
        assert (await ended(there.client, (await starting)["id"]))["output"] == 7


async def test_every_answer_about_a_goal_that_has_ended_says_what_came_of_it(
    client: Client, known: httpx.AsyncClient
) -> None:
    headers = {"Idempotency-Key": f"ended-{id(client)}"}
    made = await known.post("/api/v1/goals", json={"command": "echo hello"}, headers=headers)
    done = await ended(client, made.json()["data"]["id"])
    assert done["output"]["stdout"] == "hello\n"
    again = await known.post("/api/v1/goals", json={"command": "echo hello"}, headers=headers)
    assert (again.status_code, again.json()["data"]) == (201, as_goal(done))
    assert await client.goals.resume(done["id"]) == as_goal(done)


async def test_an_answer_that_is_reported_again_says_what_came_of_it(client: Client) -> None:
    goal = await client.goals.create(plan=ASKS)
    await waiting(client, goal["id"])
    key = f"told-{goal['id']}"
    await client.goals.decide(goal["id"], "answer", value="yes", key=key)
    done = await ended(client, goal["id"])
    assert done["output"] == {"sure": {"status": "done"}}
    assert await client.goals.decide(goal["id"], "answer", value="yes", key=key) == as_goal(done)


async def test_a_method_that_a_path_has_not_gets_the_list_of_those_that_it_has(known: httpx.AsyncClient) -> None:
    refused = await known.put("/api/v1/goals", json={})
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, POST")
    assert (await known.post("/healthz")).headers["allow"] == "GET"


async def test_the_description_reports_what_needs_no_token_and_every_success(known: httpx.AsyncClient) -> None:
    described = (await known.get("/openapi.json")).json()
    calls = {f"{method} {path}": call for path, calls in described["paths"].items() for method, call in calls.items()}
    assert {name for name, call in calls.items() if call.get("security") == []} == {"get /healthz", "get /login"}
    events = calls["get /api/v1/goals/{goal_id}/events"]["responses"]["200"]["content"]
    assert events.keys() == {"application/json", "text/event-stream"}


async def test_a_text_for_a_shell_says_how_a_request_asks_for_one(known: httpx.AsyncClient) -> None:
    refused = await known.post("/api/v1/goals", json={"command": "echo a | cat"})
    assert refused.status_code == 422
    assert '"shell": true' in refused.json()["detail"]


async def test_a_request_that_breaks_off_before_its_body_is_whole_does_nothing(
    client: Client, server: Running, token: str
) -> None:
    goal = await client.goals.create(plan=ASKS)
    await waiting(client, goal["id"])
    heard: list[Message] = []

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    async def hear(message: Message) -> None:
        heard.append(message)

    headers = {"host": f"127.0.0.1:{server.surface.access.port}", "authorization": f"Bearer {token}"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": f"/api/v1/goals/{goal['id']}/cancel",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in {**headers, "content-length": "2"}.items()],
    }
    await make_app(server.surface)(scope, gone, hear)
    assert heard == []
    assert (await client.goals.get(goal["id"]))["status"] == "waiting"


async def test_lists_lead_from_page_to_page_with_what_was_asked_for(client: Client, known: httpx.AsyncClient) -> None:
    goal = await ended(client, (await client.goals.create(command="echo hello"))["id"])
    here = f"/api/v1/goals/{goal['id']}/events"
    seen, page = [], (await known.get(f"{here}?limit=2&after_seq=1")).json()
    assert page["_links"]["self"] == f"{here}?limit=2&after_seq=1"
    while page["meta"]["next_cursor"] is not None:
        seen += [event["seq"] for event in page["data"]]
        assert page["meta"]["next_cursor"] in page["_links"]["next"]
        page = (await known.get(page["_links"]["next"])).json()
    seen += [event["seq"] for event in page["data"]]
    assert "next" not in page["_links"]
    assert seen == list(range(2, goal["last_seq"] + 1))
    assert (await known.get(f"{here}?cursor=eA")).status_code == 422


async def test_a_key_names_one_call_whatever_it_is_about(client: Client, known: httpx.AsyncClient) -> None:
    goal = await client.goals.create(plan=ASKS)
    await waiting(client, goal["id"])
    here, headers = f"/api/v1/goals/{goal['id']}", {"Idempotency-Key": f"one-{goal['id']}"}
    told = await known.post(f"{here}/signals", json={"name": "n"}, headers=headers)
    assert told.status_code == 200
    others = [
        (f"{here}/cancel", {}),
        (f"{here}/decisions", {"decision": "answer", "value": "yes"}),
        (f"{here}/fork", {"at": 1}),
        (f"{here}/resume", {}),
        ("/api/v1/goals", {"command": "true"}),
        ("/api/v1/builder/sessions", {"description": "a timer"}),
        ("/api/v1/memory/records", {"type": "fact", "title": goal["id"]}),
    ]
    for path, body in others:
        refused = await known.post(path, json=body, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (422, "key_taken"), path
    assert (await client.goals.get(goal["id"]))["status"] == "waiting"


async def test_a_key_with_a_slash_never_leads_to_another_goal(plain: Served) -> None:
    headers = {"Idempotency-Key": "7"}
    goal = (await plain.http.post("/goals", json={"plan": ASKS}, headers=headers)).json()["data"]
    await waiting(plain.client, goal["id"])
    for refused in (
        await plain.http.post("/goals/key:7%2Fcancel", json={}),
        await plain.http.get("/goals/key:7%2fevents"),
    ):
        assert (refused.status_code, "GET /goals?key=" in refused.json()["detail"]) == (404, True)
    assert (await plain.http.get("/goals/key:7")).json()["data"]["status"] == "waiting"


@pytest.mark.parametrize("change", [{"limits": {"seconds": 3}}, {"shell": True}, {"command": "echo other"}])
async def test_a_key_that_started_a_goal_starts_no_other(
    known: httpx.AsyncClient, client: Client, change: dict[str, Any]
) -> None:
    headers = {"Idempotency-Key": f"start-{id(client)}-{change}".replace(" ", "")}
    body = {"command": "echo hello"}
    assert (await known.post("/api/v1/goals", json=body, headers=headers)).status_code == 201
    assert (await known.post("/api/v1/goals", json=body | change, headers=headers)).status_code == 422


async def test_the_same_fork_asked_for_many_times_at_once_is_one(client: Client, known: httpx.AsyncClient) -> None:
    goal = await client.goals.create(plan=ASKS)
    await waiting(client, goal["id"])
    headers = {"Idempotency-Key": f"fork-{goal['id']}"}
    path = f"/api/v1/goals/{goal['id']}/fork"
    answers = await asyncio.gather(*(known.post(path, json={"at": 1}, headers=headers) for _ in range(8)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["data"]["id"] for answer in answers}) == 1


async def test_a_cursor_that_no_list_gave_out_is_refused(known: httpx.AsyncClient) -> None:
    for path in ("goals", "bots", "skills", "approvals", "builder/drafts"):
        for cursor in ("", "zz", "bm9wZQ", "x" * 900):
            answer = await known.get(f"/api/v1/{path}?cursor={cursor}")
            assert answer.status_code == 422, (path, cursor)


async def test_head_is_get_without_a_body(known: httpx.AsyncClient) -> None:
    for path in ("/healthz", "/api/v1/goals", "/api/v1/goals/none"):
        head, get = await known.head(path), await known.get(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
    assert (await known.head("/api/v1/goals", headers={"Accept": "text/event-stream"})).status_code == 405


async def test_a_key_knows_the_same_body_however_its_json_is_written(client: Client, known: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": f"written-{id(client)}", "Content-Type": "application/json"}
    bodies = (b'{"command": "true", "shell": false}', b'{"shell":false,"command":"\\u0074rue"}')
    answers = [await known.post("/api/v1/goals", content=body, headers=headers) for body in bodies]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert len({answer.json()["data"]["id"] for answer in answers}) == 1


CALLS: dict[str, tuple[str, Any]] = {
    "": ("GET", None),
    "/events": ("GET", None),
    "/resume": ("POST", {}),
    "/fork": ("POST", {"at": 1}),
    "/cancel": ("POST", {}),
    "/decisions": ("POST", {"decision": "answer", "value": "yes"}),
    "/signals": ("POST", {"name": "paid"}),
}


@pytest.mark.parametrize("path", CALLS)
async def test_a_prefix_of_an_id_names_no_goal(client: Client, known: httpx.AsyncClient, path: str) -> None:
    goal = await waiting(client, (await client.goals.create(plan=ASKS))["id"])
    method, body = CALLS[path]
    answer = await known.request(method, f"/api/v1/goals/{goal['id'][:-1]}{path}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert f"Did you mean {goal['id']}?" in answer.json()["detail"]
    assert (await client.goals.get(goal["id"])) == goal


async def test_events_after_the_end_of_a_goal_are_a_conflict_with_its_last_seq(
    client: Client, known: httpx.AsyncClient
) -> None:
    goal = await waiting(client, (await client.goals.create(plan=ASKS))["id"])
    here, last = f"/api/v1/goals/{goal['id']}/events", goal["last_seq"]
    assert (await known.get(here, params={"after_seq": last})).json()["data"] == []
    stream = {"Accept": "text/event-stream"}
    for headers in ({}, stream, {**stream, "Last-Event-ID": str(last + 1)}):
        after_seq = last if "Last-Event-ID" in headers else last + 1
        answer = await known.get(here, params={"after_seq": after_seq}, headers=headers)
        assert (answer.status_code, answer.json()["code"], answer.json()["last_seq"]) == (409, "conflict", last)


@pytest.mark.parametrize("digits", ["1" * 18, "1" * 19, str(2**63 - 1), str(2**63), "9" * 5000])
async def test_a_last_event_id_of_many_digits_is_beyond_the_end(
    client: Client, known: httpx.AsyncClient, digits: str
) -> None:
    goal = await waiting(client, (await client.goals.create(plan=ASKS))["id"])
    here, last = f"/api/v1/goals/{goal['id']}/events", goal["last_seq"]
    answer = await known.get(here, headers={"Accept": "text/event-stream", "Last-Event-ID": digits})
    assert (answer.status_code, answer.json()["last_seq"]) == (409, last)


async def test_a_page_of_events_has_at_most_four_mebibytes_or_one_event(there: Served) -> None:
    goal = await waiting(there.client, (await there.client.goals.create(plan=ASKS))["id"])
    for size in (1_500_000, 1_500_000, 1_500_000, 5_000_000, 10):
        await there.p.goals.signal(goal["id"], "more", "x" * size)
    pages, params = [], {"limit": 500}
    while params:
        answer = await there.http.get(f"/goals/{goal['id']}/events", params=params)
        pages.append(answer.json()["data"])
        assert len(answer.content) <= 4 << 20 or len(pages[-1]) == 1
        cursor = answer.json()["meta"]["next_cursor"]
        params = {} if cursor is None else {"limit": 500, "cursor": cursor}
    assert [len(page) for page in pages] == [goal["last_seq"] + 2, 1, 1, 1]
    assert [event["seq"] for page in pages for event in page] == list(range(1, goal["last_seq"] + 6))


async def test_a_goal_that_failed_says_why(client: Client) -> None:
    failed = await ended(client, (await client.goals.create(command="no-such-program-anywhere"))["id"])
    assert (failed["status"], failed["reason"]) == ("failed", "failed")
    assert "no-such-program-anywhere" in (failed["detail"] or "")


async def test_the_last_page_says_that_it_is_also_when_it_is_full(plain: Served) -> None:
    for _ in range(2):
        await plain.client.goals.create(plan=ASKS)
        await plain.client.builder.start("a timer for pasta")
    for path in ("/goals", "/builder/drafts"):
        first = (await plain.http.get(f"{path}?limit=1")).json()
        last = (await plain.http.get(f"{path}?limit=1&cursor={first['meta']['next_cursor']}")).json()
        assert (len(last["data"]), last["meta"]["next_cursor"]) == (1, None)
        assert (await plain.http.get(f"{path}?limit=2")).json()["meta"]["next_cursor"] is None


async def test_the_description_can_be_made_into_a_client(known: httpx.AsyncClient) -> None:
    described = await known.get("/openapi.json")
    calls = [call for calls in described.json()["paths"].values() for call in calls.values()]
    names = [call["operationId"] for call in calls]
    assert len(names) == len(set(names))
    assert {"start_goal", "answer_turn"} < set(names)
    assert "e+18" not in described.text


async def test_every_goal_that_changes_is_heard_of_by_the_client(client: Client) -> None:
    waits = await client.goals.create(plan=ASKS)
    await waiting(client, waits["id"])
    changes = client.goals.changes()
    while (await anext(changes))["id"] != waits["id"]:
        pass
    await client.goals.cancel(waits["id"])
    while (goal := await anext(changes))["id"] != waits["id"]:
        pass
    assert goal["status"] == "cancelled"


async def test_a_call_that_was_refused_leaves_its_key_free(client: Client, known: httpx.AsyncClient) -> None:
    goal = await client.goals.create(plan=ASKS)
    await waiting(client, goal["id"])
    here = f"/api/v1/goals/{goal['id']}"
    for path, wrong, right in (
        ("/api/v1/goals", {"command": "echo 'a"}, {"command": "true"}),
        (f"{here}/fork", {"at": 99}, {"at": 1}),
        (f"{here}/decisions", {"decision": "retry"}, {"decision": "answer", "value": "yes"}),
    ):
        headers = {"Idempotency-Key": f"free-{path.rpartition('/')[2]}-{goal['id']}"}
        assert (await known.post(path, json=wrong, headers=headers)).status_code in (409, 422)
        for _ in range(2):
            assert (await known.post(path, json=right, headers=headers)).status_code in (200, 201)
