"""The policy of a goal over REST: recorded when it is started, by which a server runs it; refused when unknown."""

from typing import Any

import pytest

from perdure import Invalid
from perdure.app import Perdure
from perdure.client import Client
from perdure.kernel.events import ToolCall
from perdure.minds.factory import MindWithTools
from tests.app.test_governed_calls import FreeMind

POLICY = {"rules": [{"tool": "*", "verdict": "allow"}]}


def decides(home: Perdure, tool: str, **arguments: Any) -> None:
    call = ToolCall("a.1", "a", tool, arguments, "pure", by="model:test")
    home.goals._runner.contexts.mind_factories["command"] = lambda _request: MindWithTools(FreeMind(call))


async def test_a_server_judges_by_the_policy_of_the_goal(client: Client, home: Perdure) -> None:
    decides(home, "read_file", path="a")
    goal = await client.goals.create(command="true", policy=POLICY)
    events = [event async for event in client.goals.follow(goal["id"])]
    assert [each["payload"].get("policy") for each in events if each["type"] == "goal"] == [POLICY]
    decisions = [each["payload"] for each in events if each["type"] == "decision"]
    assert [(each["decision"], each["by"]) for each in decisions] == [("approve", "policy")]


async def test_a_server_asks_about_a_program_whatever_the_policy(client: Client, home: Perdure) -> None:
    decides(home, "exec", argv=["true"])
    goal = await client.goals.create(command="true", policy=POLICY | {"yes": True})
    async for event in client.goals.follow(goal["id"]):
        if event["type"] == "action":
            (asked,) = await client.goals.approvals()
            await client.goals.decide(goal["id"], "approve", call_id="a.1", shown_sha256=asked["shown_sha256"])
        if event["type"] == "decision":
            assert event["payload"].get("by", "person") == "person"
    assert (await client.goals.get(goal["id"]))["status"] == "done"


async def test_a_retry_and_a_fork_get_another_policy(client: Client) -> None:
    goal = await client.goals.create(command="false", policy={"preset": "read-only"})
    async for _ in client.goals.follow(goal["id"]):
        pass
    await client.goals.retry(goal["id"], policy=POLICY)
    async for _ in client.goals.follow(goal["id"]):
        pass
    fork = await client.goals.fork(goal["id"], 1, policy={"yes": True})
    shown = [(await client.goals.get(each))["policy"] for each in (goal["id"], fork["id"])]
    rule = {"tool": "*", "verdict": "allow", "arguments": {}}
    assert shown == [{"preset": "ask", "rules": [rule], "yes": False}, {"preset": "ask", "rules": [], "yes": True}]
    with pytest.raises(Invalid, match="sandbox"):
        await client.goals.retry(goal["id"], policy={"preset": "full"})


@pytest.mark.parametrize(
    ("policy", "word"),
    [
        ({"preset": "full"}, "sandbox"),
        ({"preset": "strict"}, "strict"),
        ({"rules": [{"tool": "exec", "verdict": "perhaps"}]}, "verdict"),
        ({"presets": "ask"}, "presets"),
    ],
)
async def test_an_unknown_policy_is_refused(client: Client, policy: dict[str, Any], word: str) -> None:
    with pytest.raises(Invalid, match=word):
        await client.goals.create(command="true", policy=policy)
