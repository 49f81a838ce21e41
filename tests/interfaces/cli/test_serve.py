"""`perdure serve` and `perdure token` on the command line; what a running server does is tried in `tests/crash`."""

import asyncio
import os
import pty
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.app import Perdure
from perdure.app.access.login_codes import spend_code
from perdure.app.access.token import TOKEN_FILE, read_token
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.new_goal import of_plan_text
from perdure.app.home.server_mark import marked_as_server
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
    assert not told["is_running"]
    assert perdure("token", "url") == 0
    assert perdure.out.startswith("http://127.0.0.1:8733/login?code=")
    assert "No server of this home runs at http://127.0.0.1:8733" in perdure.err


def test_the_url_for_a_browser_names_the_server_that_runs(perdure: Terminal) -> None:
    home = load_settings().home
    with marked_as_server(home) as publish:
        assert not perdure.json("token", "url")["is_running"]  # it does not listen yet
        publish("http://127.0.0.1:9123")
        told = perdure.json("token", "url")
        assert told["url"].startswith("http://127.0.0.1:9123/login?code=")
        assert told["is_running"]
        with marked_as_server(home) as publish_other:
            publish_other("http://[::1]:9124")
            assert perdure("token", "url") == 4
            assert "--port" in perdure.err
            assert perdure.json("token", "url", "--port", "9124")["url"].startswith("http://[::1]:9124/login")
    assert not perdure.json("token", "url")["is_running"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_login_code_is_printed_on_a_terminal_only(tmp_path: Path, is_terminal: bool) -> None:
    terminal, its = pty.openpty()
    command = [sys.executable, "-m", "perdure", "serve", "--port", "0"]
    out = its if is_terminal else subprocess.DEVNULL
    with subprocess.Popen(command, stdin=its, stdout=out, stderr=its, env={**os.environ, "NO_COLOR": "1"}) as server:
        os.close(its)
        said = ""
        while "Programs use the token" not in said:
            said += os.read(terminal, 4096).decode()
        server.terminate()
        assert server.wait(30) == 0
    os.close(terminal)
    assert f"Serving {tmp_path / 'home'} at http://127.0.0.1:" in said
    assert ("/login?code=" in said) is is_terminal
    assert ("token url` prints a URL that logs a browser in" in said) is not is_terminal
    assert (len(list((tmp_path / "home").glob("login-codes/*"))) == 1) is is_terminal


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


def test_a_port_that_is_taken_is_reported(perdure: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert perdure("serve", "--port", str(taken.getsockname()[1])) == 8


def test_who_answers_a_goal_of_the_server_learns_that_the_server_continues(perdure: Terminal) -> None:
    async def asked() -> str:
        plan = 'goal: a question\nsteps:\n  - id: sure\n    ask: {question: "Publish?"}\n'
        async with Perdure.open(load_settings().home) as p:
            return (await p.goals.begin(of_plan_text(plan, "plan"), RunOptions(queue="server"))).state.goal_id

    goal_id = asyncio.run(asked())
    assert perdure("goal", "answer", goal_id, "yes") == 0
    assert "A running `perdure serve` resumes it" in perdure.out
