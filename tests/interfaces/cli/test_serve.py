"""`perdure serve` and `perdure token` on the command line; what a running server does is tried in `tests/crash`."""

import asyncio
import socket
import stat

import pytest

from perdure.app import Perdure
from perdure.app.new_goal import of_plan_text
from perdure.app.run_options import Manner
from perdure.interfaces.api.codes import spend_code
from perdure.interfaces.api.doors import TOKEN_FILE, read_token
from perdure.settings import load_settings
from tests.interfaces.cli.terminal import Terminal


def test_a_token_is_made_shown_and_renewed(perdure: Terminal) -> None:
    first = perdure.json("token", "show")["token"]
    file = load_settings().home / TOKEN_FILE
    assert file.read_text() == f"{first}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert perdure.json("token", "show")["token"] == first
    second = perdure.json("token", "rotate")["token"]
    assert second != first
    assert perdure.json("token", "show")["token"] == second


def test_a_url_for_a_browser_is_printed_whenever_it_is_wanted(perdure: Terminal) -> None:
    told = perdure.json("token", "url", "--port", "8755")
    assert told["url"].startswith("http://127.0.0.1:8755/login?code=")
    home = load_settings().home
    assert spend_code(home, told["url"].partition("=")[2], read_token(home))
    assert perdure("token", "url") == 0
    assert perdure.out.startswith("http://127.0.0.1:8733/login?code=")


def test_a_file_that_holds_no_token_is_damaged_until_a_new_one_is_made(perdure: Terminal) -> None:
    file = load_settings().home / TOKEN_FILE
    file.write_text("nothing")
    assert perdure("token", "show") == 7
    assert perdure("serve", "--port", "0") == 7
    assert perdure("token", "rotate") == 0
    assert perdure("token", "show") == 0


@pytest.mark.parametrize("arguments", [("--host", "0.0.0.0"), ("--port", "70000"), ("--port", "x")])
def test_what_cannot_be_served_is_wrong_usage(perdure: Terminal, arguments: tuple[str, ...]) -> None:
    assert perdure("serve", *arguments) == 2


def test_a_port_that_is_taken_is_told(perdure: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert perdure("serve", "--port", str(taken.getsockname()[1])) == 8


def test_who_answers_a_goal_of_the_server_is_told_that_the_server_goes_on(perdure: Terminal) -> None:
    async def asked() -> str:
        plan = 'goal: a question\nsteps:\n  - id: sure\n    ask: {question: "Publish?"}\n'
        async with Perdure.open(load_settings().home) as p:
            return (await p.goals.begin(of_plan_text(plan, "plan"), Manner(queue="server"))).state.goal_id

    goal_id = asyncio.run(asked())
    assert perdure("goal", "answer", goal_id, "yes") == 0
    assert "A running `perdure serve` resumes it" in perdure.out
