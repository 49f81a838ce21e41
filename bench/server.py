"""The server: an answer over REST beside an empty route, and thousands of sockets at once."""

import asyncio
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from uuid import uuid4

from bench.measure import scratch
from bench.raw_socket import RawSocket
from bench.table import Counted, Target, Timed
from perdure.app.builder.stored_sessions import MOST_CACHED

SOCKETS = 5_000
READERS = 1_000
DEAF = 200
ROUND_S = 10.0
_ANSWERS = 200
_STARTS = 50
_EMPTY = """
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
class Body(BaseModel):
    answer: dict
app = FastAPI()
@app.post("/api/v1/empty")
async def empty(body: Body):
    return {}
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
s.bind(("127.0.0.1", 0))
s.listen()
import sys
print(f"http://127.0.0.1:{s.getsockname()[1]}/login", file=sys.stderr, flush=True)
uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, http="h11", timeout_keep_alive=60)).run([s])
"""


@dataclass(frozen=True)
class Server:
    """A server in a process of its own."""

    pid: int
    port: int
    token: str

    def processor_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@dataclass(frozen=True)
class Crowd:
    """What many sockets have seen."""

    asked: int
    lost: int
    p99_ms: float
    bytes_per_socket: float


@dataclass(frozen=True)
class Beside:
    """What those have seen who read, alone and beside others who do not, and what the latter cost."""

    lost: int
    alone_ms: float
    beside_ms: float
    grown_bytes: int


@contextmanager
def served(home: Path, *command: str) -> Iterator[Server]:
    """Start a server that says on standard error where it is."""
    command = command or ("-m", "perdure", "serve", "--port", "0")
    environment = {**os.environ, "PERDURE_HOME": str(home)}
    with subprocess.Popen([sys.executable, *command], env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            port = next(
                int(found[1]) for line in process.stderr if (found := re.search(r"http://127\.0\.0\.1:(\d+)", line))
            )
            file = home / "token"
            yield Server(process.pid, port, file.read_text().strip() if file.exists() else "")
        finally:
            process.kill()


def measure(repeats: int) -> tuple[list[Counted], list[Timed]]:
    """Measure all there is about the server."""
    held, timed = measure_sockets()
    return held, [measure_answers(repeats), measure_answers(repeats, others=MOST_CACHED), *timed]


def measure_answers(repeats: int, others: int = 0) -> Timed:
    """Answer the first question of sessions over one connection, on a disk whose flushes cost nothing.

    A server holds the sessions that were answered last; with others in between, each is read from the database.
    """
    with scratch(Path("/dev/shm")) as home, served(home) as ours, served(home / "empty", "-c", _EMPTY) as empty:
        floors, own = asyncio.run(_answers(ours, empty, repeats, others))
    name = "answer of the builder over REST, beside an empty route of FastAPI, on tmpfs"
    if others:
        return Timed(f"the same, {others} other sessions after its last turn", median(floors), median(own), "µs")
    return Timed(name, median(floors), median(own), "µs", Target("ratio", "≤", 3))


def measure_sockets(
    sockets: int = SOCKETS, readers: int = READERS, deaf: int = DEAF
) -> tuple[list[Counted], list[Timed]]:
    """Let many sockets ask once in ten seconds; then some that read, beside as many and more that do not."""
    with scratch(Path("/dev/shm")) as home, served(home) as server:
        crowd = asyncio.run(asking(server, sockets, ROUND_S))
    with scratch(Path("/dev/shm")) as home, served(home) as server:
        beside = asyncio.run(beside_deaf(server, readers, deaf, ROUND_S))
    held = [
        Counted(
            f"messages without a reply, {sockets:,} sockets",
            crowd.lost,
            Target("value", "=", 0),
            f"{crowd.asked:,} asked",
        ),
        Counted(
            "kilobytes of memory per socket",
            crowd.bytes_per_socket / 1e3,
            Target("value", "≤", 60),
            f"{sockets:,} sockets",
        ),
        Counted(
            f"megabytes that {deaf} clients who stopped reading cost",
            beside.grown_bytes / 1e6,
            Target("value", "≤", deaf * 0.5),
            "each follows 6 MB of history",
        ),
    ]
    timed = [
        Timed(
            f"reply to one of {sockets:,} sockets, p99", beside.alone_ms, crowd.p99_ms, "ms", Target("value", "≤", 250)
        ),
        Timed(
            f"reply to one of {readers - deaf:,} sockets beside {deaf} who do not read, p99",
            beside.alone_ms,
            beside.beside_ms,
            "ms",
            Target("ratio", "≤", 1.2),
        ),
    ]
    return held, timed


async def asking(server: Server, sockets: int, round_s: float) -> Crowd:
    """Open sockets on sessions, and let each ask for its turn once in a round, at a moment of its own."""
    before = server.memory_bytes()
    crowd = await _opened(server, sockets)
    bytes_per_socket = (server.memory_bytes() - before) / sockets
    times = await _ask_all(crowd, round_s)
    for each in crowd:
        each.close()
    replied = [taken for taken in times if taken is not None]
    return Crowd(len(times), len(times) - len(replied), _p99_ms(replied), bytes_per_socket)


async def _opened(server: Server, sockets: int) -> list[RawSocket]:
    """Open sockets, some at a time, and begin an interview on each."""
    crowd: list[RawSocket] = []
    while len(crowd) < sockets:
        number = min(_STARTS, sockets - len(crowd))
        some = await asyncio.gather(
            *[RawSocket.open(server.port, f"/ws/builder/{uuid4()}", server.token) for _ in range(number)]
        )
        crowd += some
        for each in some:
            each.send(b'{"type":"start","description":"a timer for pasta"}')
            await each.recv()
    return crowd


async def _ask_all(crowd: Sequence[RawSocket], round_s: float) -> list[float | None]:
    return list(await asyncio.gather(*[_ask(each, random.random() * round_s) for each in crowd]))


async def _ask(socket: RawSocket, after_s: float) -> float | None:
    """Ask for the pending turn at a moment; return how long the reply took, if one came."""
    await asyncio.sleep(after_s)
    begun = time.perf_counter()
    socket.send(b'{"type":"resume"}')
    try:
        async with asyncio.timeout(30):
            await socket.recv()
    except (OSError, EOFError, TimeoutError):
        return None
    return time.perf_counter() - begun


async def beside_deaf(server: Server, readers: int, deaf: int, round_s: float) -> Beside:
    """Let some ask, alone and beside others who follow a long history and read nothing of it."""
    path = await _long_history(server)
    reading = await _opened(server, readers - deaf)
    await _settled(server)
    alone = await _ask_all(reading, round_s)
    before = server.memory_bytes()
    silent = [await RawSocket.open(server.port, path, server.token) for _ in range(deaf)]
    for each in silent:
        each.stop_reading()
    await _settled(server)
    beside = await _ask_all(reading, round_s)
    grown = server.memory_bytes() - before
    for each in (*reading, *silent):
        each.close()
    replied = [[taken for taken in times if taken is not None] for times in (alone, beside)]
    lost = 2 * len(reading) - sum(map(len, replied))
    return Beside(lost, _p99_ms(replied[0]), _p99_ms(replied[1]), grown)


async def _settled(server: Server) -> None:
    """Wait until the server has no more to do."""
    before = -1.0
    while (now := server.processor_s()) - before > 0.02:
        before = now
        await asyncio.sleep(0.5)


async def _long_history(server: Server) -> str:
    """Make a goal whose history is some megabytes long, and return the path of its socket."""
    much = f"{sys.executable} -c 'print(60000 * chr(120))'"
    steps = "".join(f"  - {{id: s{n}, exec: {json.dumps(much)}, effect: pure}}\n" for n in range(100))
    rest = await _Rest.open(server)
    made = json.loads(await rest.post("/api/v1/goals", json.dumps({"plan": f"goal: much\nsteps:\n{steps}"}).encode()))
    path = f"/ws/goals/{made['data']['id']}"
    reading = await RawSocket.open(server.port, path, server.token)
    with contextlib.suppress(ConnectionError):
        while True:
            await reading.recv()
    reading.close()
    rest.close()
    return path


async def _answers(ours: Server, empty: Server, repeats: int, others: int) -> tuple[list[float], list[float]]:
    first, second = await _Rest.open(empty), await _Rest.open(ours)
    body = json.dumps({"answer": {"option_index": 0}}).encode()
    floors, own = [], []
    for _ in range(repeats):
        made = [
            json.loads(await second.post("/api/v1/builder/sessions", b'{"description":"a timer"}'))
            for _ in range(_ANSWERS + others)
        ]
        paths = [f"/api/v1/builder/sessions/{each['data']['session_id']}/answer" for each in made[:_ANSWERS]]
        floors.append(await _one_us(first, ["/api/v1/empty"] * _ANSWERS, body))
        own.append(await _one_us(second, paths, body))
    first.close()
    second.close()
    return floors, own


async def _one_us(rest: "_Rest", paths: Sequence[str], body: bytes) -> float:
    begun = time.perf_counter()
    for path in paths:
        await rest.post(path, body)
    return (time.perf_counter() - begun) / len(paths) * 1e6


class _Rest:
    """One connection that is kept."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, server: Server) -> "_Rest":
        return cls(server, *await asyncio.open_connection("127.0.0.1", server.port))

    def close(self) -> None:
        self._writer.transport.abort()

    async def post(self, path: str, body: bytes) -> bytes:
        server = self._server
        self._writer.write(
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 20"):
            raise RuntimeError(f"{path} was answered with {head[:60]!r}")
        size = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])  # type: ignore[index]
        return await self._reader.readexactly(size)


def _p99_ms(times: Sequence[float]) -> float:
    return quantiles(times, n=100)[98] * 1e3
