"""Forge with a server whose answers are lost, or that goes away: nothing is done twice, and no answer is lost."""

import json
import shlex
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interfaces.cli.interviews import WISH, YES, coding, said, written
from tests.interfaces.cli.on_terminal import CTRL_C, ENTER, Start
from tests.interfaces.cli.remote import Both
from tests.interfaces.cli.terminal import Terminal
from tests.interfaces.cli.test_remote_doors import losing_the_first_answer, whole


@pytest.fixture
def ada(both: Both) -> Both:
    """A bot in the home of the server."""
    assert both.remote("new", WISH, "--answers", written(coding())) == 0
    return both


@contextmanager
def serving_requests(url: str, number: int) -> Iterator[str]:
    """Hand some requests on to a server, and answer none after them: the server is gone."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.create_server((host, 0)) as listening:
        ours = listening.getsockname()[1]
        authority = (f":{ours}".encode(), f":{port}".encode())

        def serve() -> None:
            for _ in range(number):
                try:
                    peer, _address = listening.accept()
                except OSError:
                    return
                with peer, socket.create_connection((host, int(port))) as server:
                    server.sendall(whole(peer).replace(*authority, 1))
                    peer.sendall(whole(server))
            listening.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://{host}:{ours}"
        finally:
            if listening.fileno() >= 0:
                listening.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def test_a_rollback_and_an_import_whose_answers_are_lost_are_made_once(ada: Both) -> None:
    assert ada.remote("bot", "export", "ada", "-o", "ada.bot") == 0
    with losing_the_first_answer(ada.url) as url:
        assert ada.perdure("bot", "rollback", "ada", "1", "--url", url, "--json") == 0
    assert json.loads(ada.perdure.out)["result"]["version"] == 2
    assert [each["number"] for each in ada.same_json("bot", "versions", "ada")["versions"]] == [2, 1]
    with losing_the_first_answer(ada.url) as url:
        assert ada.perdure("bot", "import", "ada.bot", "--url", url) == 0
    assert [each["slug"] for each in ada.same_json("bot", "list")["bots"]] == ["ada", "ada-2"]


def test_a_beginning_whose_answer_is_lost_leaves_one_draft(both: Both) -> None:
    with losing_the_first_answer(both.url) as url:
        assert both.perdure("new", WISH, "--answers", written([said("Ada")]), "--url", url) == 2
    [draft] = both.same_json("draft", "list")["drafts"]
    assert draft["revision"] == 2


@pytest.mark.parametrize("requests", range(1, 9))
def test_a_server_that_goes_away_in_an_interview_loses_no_answer(both: Both, requests: int) -> None:
    """Two requests begin it, and two are an answer; what was answered stands in the draft, and is not asked again."""
    with serving_requests(both.url, requests) as url:
        assert both.perdure("new", WISH, "--answers", written(coding()), "--url", url) == 8
    [draft] = both.same_json("draft", "list")["drafts"]
    answered = draft["revision"] - 1
    assert answered == max(requests - 1, 0) // 2
    if requests == 1:
        assert "Resume" not in both.perdure.err  # nothing is known of the session but that it may be there
        return
    both.perdure("draft", "list", "--url", both.url)
    again = ["new", "--resume", draft["session_id"]]
    assert both.remote(*again, "--answers", written(coding()[answered:])) == 0
    assert [each["slug"] for each in both.same_json("bot", "list")["bots"]] == ["ada"]


def test_the_command_that_resumes_is_printed(both: Both) -> None:
    with serving_requests(both.url, 3) as url:
        assert both.perdure("new", WISH, "--answers", written(coding()), "--url", url) == 8
        said_last = both.perdure.err
    assert "All accepted answers are stored." in said_last
    command = shlex.split(said_last.rpartition("Resume with: ")[2])
    assert command[:3] == ["perdure", "new", "--resume"]
    assert command[-2:] == ["--url", url]
    assert both.remote(*command[1:-2], "--answers", written(coding()[1:])) == 0


def test_an_answer_that_was_given_elsewhere_meanwhile_is_reported(ada: Both) -> None:
    assert ada.remote("new", "--reconfigure", "ada", "--answers", written([said("name")])) == 2
    [draft] = ada.same_json("draft", "list")["drafts"]
    assert ada.local("draft", "delete", draft["session_id"], "--yes") == 0
    assert ada.remote("draft", "resume", draft["session_id"], "--answers", written([YES])) == 3


@pytest.mark.parametrize("command", ["skill list", "skill show x", "skill create x", "skill edit x"])
def test_commands_of_skills_say_that_they_need_the_home(
    command: str, perdure: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_URL", "http://127.0.0.1:1")
    assert perdure(*command.split()) == 2
    assert "Use --home, or unset PERDURE_URL" in perdure.err


def test_nothing_is_made_where_the_command_was_typed(ada: Both) -> None:
    assert ada.remote("bot", "list") == ada.remote("draft", "list") == ada.remote("choice", "list") == 0
    assert not (ada.home.parent / "elsewhere").exists()
    assert not Path("bots").exists()


def test_the_wizard_asks_at_a_terminal_and_ctrl_c_prints_the_command_that_resumes(both: Both, start: Start) -> None:
    program = start("new", WISH, "--url", both.url)
    program.until("? What should it be called?")
    program.press(ENTER)
    program.until("Whatever the project uses")
    program.press(CTRL_C)
    code, shown, _ = program.end()
    command = shlex.split(shown.strip().splitlines()[-1])
    assert (code, command[:3], command[-2:]) == (130, ["perdure", "new", "--resume"], ["--url", both.url])
    [draft] = both.same_json("draft", "list")["drafts"]
    assert draft["revision"] == 2
    assert both.perdure(*command[1:], "--yes") == 0
    assert f"Its files are in the home of {both.url}:" in both.perdure.out
