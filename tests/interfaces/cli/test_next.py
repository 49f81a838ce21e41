"""The next commands of a goal: the command line and HTTP name the same ones."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.app.access.token import read_token
from perdure.client import Client
from perdure.interfaces.api.server import Address, running
from tests.interfaces.cli.terminal import Terminal

PLANS = {
    "question": "{id: a, ask: {question: 'Which?', options: [red, blue]}}",
    "timer": "{id: a, wait: 2h}",
    "failed": "{id: a, exec: 'false'}",
    "done": "{id: a, exec: 'true'}",
}


async def _over_http(goal_id: str) -> dict[str, Any]:
    async with (
        Perdure.open() as p,
        running(p, Address(port=0)) as server,
        Client(server.url, read_token(p.settings.home)) as client,
    ):
        return {**await client.goals.get(goal_id)}


@pytest.mark.parametrize("kind", PLANS)
def test_the_command_line_and_http_name_the_same_commands(perdure: Terminal, kind: str) -> None:
    Path("plan.yaml").write_text(f"goal: x\nsteps: [{PLANS[kind]}]")
    perdure("run", "--plan", "plan.yaml", "--json")
    shown = perdure.json("goal", "show", perdure.newest())
    served = asyncio.run(_over_http(shown["id"]))
    assert (served["next"], served["error"]) == (shown["next"], shown["error"])
    assert len(shown["next"]) == (kind != "done")


def test_an_ephemeral_goal_has_no_next_commands(perdure: Terminal) -> None:
    assert perdure.json("run", "--ephemeral", "--", "false")["next"] == []


def test_the_json_names_the_home_that_was_given(perdure: Terminal, tmp_path: Path) -> None:
    home = ("--home", str(tmp_path / "home"))
    ran = perdure.json("run", *home, "--", "false")
    commands = [{"command": f"perdure goal retry {ran['id']} --home {home[1]}", "why": ran["next"][0]["why"]}]
    assert ran["next"] == perdure.json("goal", "show", ran["id"], *home)["next"] == commands
    assert perdure.json("goal", "list", *home)["goals"][0]["next"][0]["command"] == commands[0]["command"]
