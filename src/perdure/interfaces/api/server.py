"""Runs the server: binds the address, serves until a signal arrives, and releases all goals at the end."""

import asyncio
import errno
import logging
import re
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial

import uvicorn

from perdure import __version__
from perdure.app import Perdure
from perdure.app.access.login_codes import login_url
from perdure.app.access.token import read_token
from perdure.app.goals.retention import Retention
from perdure.app.home.system import SystemClock
from perdure.app.workers.server_worker import ServerWorker, WakeCli
from perdure.errors import Invalid, Unavailable
from perdure.file_limit import raise_file_limit
from perdure.interfaces.api.app import make_app
from perdure.interfaces.api.auth.server_access import LOCAL, ServerAccess
from perdure.interfaces.api.connections import CloseCode, LiveConnections
from perdure.interfaces.api.dependencies import Surface
from perdure.interfaces.api.protocols.config import Config
from perdure.interfaces.api.protocols.connection_limit import ConnectionLimit

PORT = 8733
FRAME_BYTES = 256 * 1024
HEARTBEAT_S = 30.0
PATIENCE_S = 30.0
_CLOSE_S = 5
_ROTATION_S = 0.5
_PAUSE_S = 1.0
_BACKLOG = 2048
_SEND_BUFFER_BYTES = 256 * 1024
"""The size of the kernel's send buffer of a connection; by default it grows to several mebibytes."""
_TICKS_PER_SECOND = 10
_NAME = re.compile(r"[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Address:
    """The address and host names of a server, and its limits for connections."""

    host: str = "127.0.0.1"
    port: int = PORT
    is_exposed: bool = False
    """Explicit permission for a host that other machines can reach."""
    names: Sequence[str] = ()
    heartbeat_s: float = HEARTBEAT_S
    """The interval of pings on sockets, and the timeout of their pongs."""
    patience_s: float = PATIENCE_S
    """Timeout for a client to send a whole request, or to read a part of the response."""
    most_connections: int | None = None
    """Maximum number of open connections; None for what the system allows."""

    @property
    def is_local(self) -> bool:
        return self.host in ("127.0.0.1", "localhost", "::1")

    @property
    def shown(self) -> str:
        """The host in the printed URL."""
        if not self.is_local and self.names:
            return self.names[-1]
        known = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "localhost": "127.0.0.1"}  # noqa: S104 (compared, not bound)
        return known.get(self.host) or self._own()

    def _own(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    def all_names(self) -> tuple[str, ...]:
        """Return all accepted host names and addresses."""
        reached = () if self.host in ("0.0.0.0", "::") else (self._own(),)  # noqa: S104 (compared, not bound)
        return tuple(dict.fromkeys((*LOCAL, *reached, *self.names)))


def bind(address: Address) -> socket.socket:
    """Listen on an address; port 0 selects a free one.

    Raises: Invalid when other machines could reach it without `--expose`; Unavailable when it is in use.
    """
    for name in address.names:
        if not _NAME.fullmatch(name):
            raise Invalid(f"Invalid host name {name!r}: expected a name without scheme and port.")
    if not address.is_local and not address.is_exposed:
        raise Invalid(
            f"{address.host} can be reached by other machines, and the connection is not encrypted. Use --expose to"
            " allow this; every client still needs the token."
        )
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named: else asyncio leaves Nagle on
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        listener.bind((address.host, address.port))
        listener.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or str(error)
        is_elsewhere = isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL
        advice = "Use --host with an address of this machine" if is_elsewhere else "Try --port 0"
        raise Unavailable(f"Cannot listen on {address.host}:{address.port}: {why}. {advice}.") from error
    listener.setblocking(False)
    return listener


class _Server(uvicorn.Server):
    """A uvicorn server that sets an event when it listens, and does not handle signals."""

    config: Config

    def __init__(self, config: Config, listens: asyncio.Event) -> None:
        super().__init__(config)
        self.listens = listens

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)  # asyncio uses one number for the queue and for the accepts in one turn
        self.listens.set()

    async def on_tick(self, counter: int) -> bool:
        """See uvicorn.Server.on_tick, which is called ten times a second."""
        if counter % _TICKS_PER_SECOND == 0:
            self.config.connection_limit.end_closing()
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: `serve` handles signals, also after uvicorn has stopped."""
        yield


@dataclass(frozen=True)
class Running:
    """A server that listens."""

    url: str
    surface: Surface
    ended: "asyncio.Task[None]"
    end: Callable[[], None]
    """Starts the shutdown: new requests are rejected, and open connections are closed."""
    connections: ConnectionLimit

    def login_url(self) -> str:
        """Return a URL that logs a browser in, once."""
        return login_url(self.url, self.surface.access.home)


@asynccontextmanager
async def running(p: Perdure, address: Address) -> AsyncIterator[Running]:
    """Serve a home inside the block; at its end, all goals are released.

    Raises: Invalid; Unavailable; Denied and Damaged when the token cannot be read.
    """
    read_token(p.settings.home)
    listener = bind(address)
    port = listener.getsockname()[1]
    access = ServerAccess(p.settings.home, port, address.all_names())
    has_begun = asyncio.Event()
    async with _working(p, access, has_begun) as surface:
        config = _config(surface, address)
        server = _Server(config, has_begun)
        ended = asyncio.create_task(server.serve([listener]))

        def end() -> None:
            _end(surface, CloseCode.SHUTDOWN)
            server.should_exit = True

        listens = asyncio.create_task(has_begun.wait())
        try:
            await asyncio.wait({ended, listens}, return_when=asyncio.FIRST_COMPLETED)
            url = f"http://{address.shown}:{port}"
            log.info("perdure %s serves %s at %s", __version__, p.settings.home, url)
            yield Running(url, surface, ended, end, config.connection_limit)
        finally:
            listens.cancel()
            end()
            await asyncio.wait({ended})
            listener.close()
            log.info("the server at port %d has ended", port)


async def serve(p: Perdure, address: Address, on_start: Callable[[Running], None], on_wait: Callable[[], None]) -> int:
    """Serve a home until a signal arrives; a second signal ends running steps. Return the number of interrupted goals.

    `on_wait` is called if the shutdown waits for running steps.

    Raises: as `running`.
    """
    raise_file_limit()
    with _signals() as heard:
        async with running(p, address) as server:
            heard.then(server.end, server.surface.worker.end_wait)
            on_start(server)
            await asyncio.wait({server.ended})
            if server.surface.worker.is_busy:
                on_wait()
        return server.surface.worker.cut_short


class _Heard:
    """Calls one function at the first signal, the next at the second, and so on; earlier signals count, too."""

    def __init__(self) -> None:
        self._count = 0
        self._acts: Sequence[Callable[[], None]] = ()

    def then(self, *acts: Callable[[], None]) -> None:
        self._acts = acts
        for act in acts[: self._count]:
            act()

    def __call__(self) -> None:
        if self._count < len(self._acts):
            self._acts[self._count]()
        self._count += 1


@contextmanager
def _signals() -> Iterator[_Heard]:
    """Handle Ctrl-C and SIGTERM inside the block."""
    loop, heard, kinds = asyncio.get_running_loop(), _Heard(), (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(kind) for kind in kinds]
    for kind in kinds:
        loop.add_signal_handler(kind, heard)
    try:
        yield heard
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            loop.remove_signal_handler(kind)
            signal.signal(kind, handler)


def _end(surface: Surface, why: CloseCode) -> None:
    surface.connections.end_all(why)
    surface.p.goals.feed.wake_all()


async def keep_up(chore: Callable[[], Awaitable[None]], pause_s: float = _PAUSE_S) -> None:
    """Run a background task to its end; after an unexpected error, log it and restart the task."""
    while True:
        try:
            return await chore()
        except Exception:
            log.exception("a background task of the server failed; restarting it")
            await asyncio.sleep(pause_s)


async def _watch_token(surface: Surface) -> None:
    """Close all connections when the token is rotated, and those of a login session when it ends."""
    token = surface.access.token.read()
    while True:
        await asyncio.sleep(_ROTATION_S)
        if surface.connections.end_sessions(surface.access.sessions.is_open):
            surface.p.goals.feed.wake_all()
        if (now := surface.access.token.read()) != token:
            token = now
            _end(surface, CloseCode.TOKEN)


async def _run_goals(worker: ServerWorker, listens: asyncio.Event) -> None:
    """Run goals after the server listens, so that it answers requests even if a goal then kills it."""
    await listens.wait()
    await worker.run()


@asynccontextmanager
async def _working(p: Perdure, access: ServerAccess, listens: asyncio.Event) -> AsyncIterator[Surface]:
    """Run goals inside the block; at its end, all goals are released."""
    wakes = WakeCli(frozenset(p.settings.flows)) if p.settings.wake_cli_goals else None
    clock = SystemClock()
    worker = ServerWorker(p.goals, p.keys, clock, wakes=wakes)
    surface = Surface(p, worker, access, LiveConnections())
    retention = Retention(p.goals, clock, p.settings.keep_days)
    work = (partial(_run_goals, worker, listens), partial(_watch_token, surface), retention.run)
    chores = [asyncio.create_task(keep_up(chore)) for chore in work]
    try:
        yield surface
    finally:
        _end(surface, CloseCode.SHUTDOWN)
        await surface.worker.close()
        for chore in chores:
            chore.cancel()
        await asyncio.gather(*chores, return_exceptions=True)


def _config(surface: Surface, address: Address) -> Config:
    return Config(
        make_app(surface),
        address.patience_s,
        address.most_connections,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        ws_max_size=FRAME_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=address.heartbeat_s,
        ws_ping_timeout=address.heartbeat_s,
        timeout_graceful_shutdown=_CLOSE_S,
        timeout_keep_alive=30,
    )
