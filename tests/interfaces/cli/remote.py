"""A home served by a thread of its own, and commands that work with the server or, for comparison, with the home."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.app import Perdure
from perdure.app.access.token import read_token
from perdure.interfaces.api.server import Address, running
from tests.interfaces.cli.terminal import Terminal


class Server:
    """A server in a thread, with a loop of its own: commands begin theirs."""

    def __init__(self, home: Path, port: int) -> None:
        self.url = ""
        self._is_up, self._is_over = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(home, port)))
        self._thread.start()
        assert self._is_up.wait(30)

    async def _serve(self, home: Path, port: int) -> None:
        self._loop = asyncio.get_running_loop()
        async with Perdure.open(home) as p, running(p, Address(port=port)) as server:
            self.url = server.url
            self._is_up.set()
            await self._is_over.wait()

    def end(self) -> None:
        """End it, if that was not done before."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join(60)


@contextmanager
def serving(home: Path, port: int = 0) -> Iterator[Server]:
    """Serve a home for the time of the block."""
    server = Server(home, port)
    try:
        yield server
    finally:
        server.end()


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)  # what is waited for needs the processor


class Both:
    """The same command with a server and with the home that it serves."""

    def __init__(self, perdure: Terminal, home: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.perdure = perdure
        self.home = home
        self.url = url
        self._environment = monkeypatch
        self.token = read_token(home)
        monkeypatch.setenv("PERDURE_HOME", str(home.parent / "elsewhere"))
        self.show(self.token)

    def show(self, token: str) -> None:
        """Show a token to the server from now on."""
        self._environment.setenv("PERDURE_TOKEN", token)

    def remote(self, *arguments: str) -> int:
        """Call a command with the server."""
        return self.perdure("--url", self.url, *arguments)

    def local(self, *arguments: str) -> int:
        """Call a command with the home."""
        return self.perdure("--home", str(self.home), *arguments)

    def remote_json(self, *arguments: str) -> Any:
        """Return the object of a command with the server, which the environment names."""
        with self._environment.context() as environment:
            environment.setenv("PERDURE_URL", self.url)
            self.perdure("--json", *arguments)
        assert self.perdure.err == ""
        return json.loads(self.perdure.out)

    def local_json(self, *arguments: str) -> Any:
        """Return the object of a command with the home, which the environment names."""
        with self._environment.context() as environment:
            environment.setenv("PERDURE_HOME", str(self.home))
            self.perdure("--json", *arguments)
        assert self.perdure.err == ""
        return json.loads(self.perdure.out)

    def same_json(self, *arguments: str) -> Any:
        """Return the object of a command that reads, which is the same with the server and with the home.

        Queries of the memory get more time than a busy machine needs.
        """
        is_query = arguments[0] == "memory" and arguments[1] in ("query", "related", "search")
        arguments = (*arguments, *(("--budget-ms", "10000") if is_query else ()))
        found = self.remote_json(*arguments)
        assert self.local_json(*arguments) == found
        return found
