"""The way of a command to a server: where the token may go, who is told what, and what becomes of a lost answer."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.interfaces.cli.errors import run
from tests.interfaces.cli.remote import Both
from tests.interfaces.cli.terminal import Terminal

SECRET = "s3cret-token"
COMMANDS = (
    "memory status",
    "goal list",
    "run true",
    "bot list",
    "bot show ada",
    "draft list",
    "choice list",
    "new x -y",
)
"""One of each group that works with a server."""


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_TOKEN", SECRET)


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_a_door_that_is_not_a_server_of_ours(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plain http to another machine is invalid; a server that is gone, or another program, is unavailable."""
    words = command.split()
    assert run([*words, "--url", "http://192.0.2.7:8733"]) == 2
    assert "Nothing was sent" in capsys.readouterr().err
    assert run([*words, "--url", "http://127.0.0.1:1"]) == 8
    assert "http://127.0.0.1:1 does not answer" in capsys.readouterr().err
    for head, body in OTHER_PROGRAMS:
        length = f"Content-Length: {len(body)}\r\n\r\n".encode()
        with answering(head + length + body) as seen:
            assert run([*words, "--url", seen.url, "--json"]) == 8
        said = capsys.readouterr()
        assert json.loads(said.out)["code"] == "unavailable"
        assert SECRET not in said.out + said.err
        assert "Traceback" not in said.err


OTHER_PROGRAMS = (
    (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n", b"<html>hello</html>"),
    (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n", b'{"data": 1}'),
    (b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n", b"<html>nothing here</html>"),
    (b"HTTP/1.1 401 Unauthorized\r\nContent-Type: text/plain\r\n", b"who are you"),
    (b"SSH-2.0-OpenSSH_9.6\r\n", b""),
)
"""What other programs say at a port."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_that_a_token_is_wrong(both: Both, command: str) -> None:
    both.show(SECRET)
    assert both.remote(*command.split(), "--json") == 1
    problem = json.loads(both.perdure.out)
    assert (problem["code"], "`perdure token show`" in problem["detail"]) == ("no_token", True)
    both.show("")
    assert both.remote(*command.split()) == 1
    assert "PERDURE_TOKEN" in both.perdure.err


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize(
    "url",
    [
        "http://192.0.2.7:8733",
        "http://perdure.example",
        "http://127.0.0.1.example:8733",
        "http://localhost.example",
        "http://0.0.0.0:8733",
        "http://2130706433:8733",
        "http://[2001:db8::1]:8733",
    ],
)
def test_the_token_is_not_sent_unencrypted_to_another_machine(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "status", "--url", url]) == 2
    said = capsys.readouterr().err
    assert "https://" in said
    assert "Nothing was sent" in said
    assert SECRET not in said


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1",
        "127.0.0.1:8733",
        "https://ann:pass-word@server.example",
        "https://:pass-word@[::1",
        "http://127.0.0.1:8733/api",
        "http://127.0.0.1:8733?x=1",
        "http://127.0.0.1:8733#x",
        "unix:///run/perdure",
        " ",
    ],
)
def test_what_is_no_address_of_a_server_is_invalid(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "status", "--url", url, "--debug"]) == 2
    said = capsys.readouterr().err
    assert SECRET not in said
    assert "pass-word" not in said


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize("url", ["http://localhost:1", "http://127.0.0.1:1/", "http://127.9.9.9:1", "http://[::1]:1"])
def test_a_server_that_does_not_answer_is_unavailable(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "status", "--url", url, "--json", "--debug", "--verbose"]) == 8
    said = capsys.readouterr()
    assert json.loads(said.out)["code"] == "unavailable"
    assert SECRET not in said.out + said.err


def test_a_server_and_a_home_are_not_given_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "status", "--url", "http://127.0.0.1:1", "--home", "here"]) == 2
    assert "not both" in capsys.readouterr().err


def test_a_home_that_is_named_counts_more_than_the_server_of_the_environment(
    perdure: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_URL", "http://127.0.0.1:1")
    assert perdure("memory", "status", "--home", "there") == 0
    assert perdure("memory", "verify") == 2
    assert "unset PERDURE_URL" in perdure.err


def test_who_has_no_token_learns_where_it_is(both: Both) -> None:
    both.show("")
    assert both.remote("memory", "status") == 1
    assert "`perdure token show`" in both.perdure.err
    assert "PERDURE_TOKEN" in both.perdure.err


def test_a_wrong_token_is_refused_and_not_repeated(both: Both) -> None:
    both.show(SECRET)
    assert both.remote("memory", "status", "--json", "--debug", "--verbose") == 1
    assert json.loads(both.perdure.out)["code"] == "no_token"
    assert "`perdure token show`" in both.perdure.out
    assert SECRET not in both.perdure.out + both.perdure.err


@pytest.mark.usefixtures("shown")
def test_a_redirect_is_not_followed(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b"HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n") as seen:
        assert run(["memory", "status", "--url", seen.url]) == 8
    assert "307" in capsys.readouterr().err
    assert len(seen.requests) == 1


def test_a_record_whose_answer_is_lost_is_stored_once(both: Both) -> None:
    with losing_the_first_answer(both.url) as url:
        assert both.perdure("memory", "add", "--type", "fact", "--title", "Lost", "--url", url, "--json") == 0
        assert json.loads(both.perdure.out)["added"]
    assert both.remote_json("memory", "status")["records"] == 1


def test_records_whose_answer_is_lost_are_stored_once(both: Both) -> None:
    with losing_the_first_answer(both.url) as url:
        assert both.perdure("memory", "add", "--type", "fact", "--title", "Lost", "--again", "--url", url) == 0
    assert both.perdure.out.startswith("Added ")
    assert both.remote_json("memory", "status")["records"] == 1


class Answering:
    """A port, and the requests that came to it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.requests: list[bytes] = []


@contextmanager
def answering(answer: bytes) -> Iterator[Answering]:
    """Answer every request in the same way."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        seen = Answering(listening.getsockname()[1])

        def serve() -> None:
            while True:
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                with peer:
                    seen.requests.append(peer.recv(65536))
                    peer.sendall(answer)

        with in_thread(serve, listening):
            yield seen


@contextmanager
def losing_the_first_answer(url: str) -> Iterator[str]:
    """Hand every request on to a server, and close the first connection instead of handing the answer back."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.create_server((host, 0)) as listening:
        number = listening.getsockname()[1]
        authority = (f":{number}".encode(), f":{port}".encode())

        def serve() -> None:
            is_first = True
            while True:
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                with peer, socket.create_connection((host, int(port))) as server:
                    server.sendall(whole(peer).replace(*authority, 1))
                    answer = whole(server)
                    if not is_first:
                        peer.sendall(answer)
                    is_first = False

        with in_thread(serve, listening):
            yield f"http://{host}:{number}"


def whole(peer: socket.socket) -> bytes:
    """Read a request or an answer with its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += peer.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
    while len(body) < length:
        body += peer.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def in_thread(serve: object, listening: socket.socket) -> Iterator[None]:
    """Run a function in a thread until its socket is closed."""
    assert callable(serve)
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


AT_HOME = (
    "goal list",
    "goal show x",
    "memory status",
    "memory list",
    "bot list",
    "draft list",
    "choice list",
    "bot show x",
)


def test_a_command_with_a_home_does_not_load_the_client(ready: Path) -> None:
    lines = (
        "import sys; from perdure.interfaces.cli.errors import run\n"
        "for command in sys.argv[1:]:\n"
        "    run(command.split())\n"
        "    loaded = {'httpx', 'perdure.client', 'websockets'} & set(sys.modules)\n"
        "    assert not loaded, (command, loaded)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", lines, *AT_HOME], check=False, cwd=ready, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
