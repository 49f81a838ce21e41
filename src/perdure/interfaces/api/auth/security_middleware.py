"""The security middleware: checks host, token, origin, size and body of every request and upgrade."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Literal
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.errors import Denied, Invalid, NotFound, NoToken, PerdureError
from perdure.interfaces.api.access_log import log_answer
from perdure.interfaces.api.auth.server_access import SESSION, ServerAccess
from perdure.interfaces.api.envelope import REQUEST_INFO, RequestInfo, problem
from perdure.interfaces.api.json_body import parse_json
from perdure.interfaces.api.problems import TooLarge, WrongType

LARGEST_BODY = 1 << 20
_MOST_READ = 8 << 20
_MOST_COOKIES = 256
LONGEST_QUERY = 16_384
OPEN_PATHS = frozenset({"/healthz", "/login"})
"""The paths that need no token: the health check and the login."""

PARSED_BODY = "perdure_parsed_body"
"""The key in a scope for the parsed body; missing if the body is empty."""

ON_TOKEN = "perdure_on_token"  # noqa: S105 (a name, not a token)
"""The key in the state of a scope for a function that is called after authentication."""

CLIENT_LEFT = "perdure_client_left"
"""The key in the state of a scope for an event that is set when the client has closed or lost the connection."""

_SCHEME = b"http://"
_SWITCHING = 101
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_SAID_ONCE = ("idempotency-key", "if-match", "last-event-id")
ON_EVERY_ANSWER = {
    b"content-security-policy": b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


class _Gone(Exception):
    """The client disconnected before the body was complete; a partial body must not be acted on."""


class Gate:
    """ASGI middleware that passes valid, authenticated requests on, and rejects all others."""

    def __init__(self, app: ASGIApp, access: ServerAccess, more: Mapping[str, object]) -> None:
        self._app = app
        self._access = access
        self._more = more
        """Additional entries of the scope of every request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        scope, authority = _origin_form({**scope, **self._more})
        info = RequestInfo.now(scope["path"], scope["query_string"])
        REQUEST_INFO.set(info)
        send = _with_headers(send, info, scope)
        try:
            self._admit(scope, authority)
            if scope["type"] == "http" and scope["method"] not in _SAFE_METHODS:
                scope, receive = await _read_body(scope, receive)
        except _Gone:
            return
        except PerdureError as error:
            headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, NoToken) else None
            await _refuse(scope, receive, send, problem(error, headers=headers))
            return
        await self._app(_as_get(scope), receive, send)

    def _admit(self, scope: Scope, authority: str | None) -> None:
        """Check a request.

        Raises: PerdureError when it is rejected.
        """
        headers = Headers(scope=scope)
        self._require_host(headers.getlist("host"), authority)
        if any(ord(character) < ord(" ") for character in scope["path"]):
            raise NotFound("Unknown path: it has a control character.")
        query = scope["query_string"]
        if len(query) > LONGEST_QUERY:
            raise TooLarge(f"The query is longer than {LONGEST_QUERY:,} bytes.")
        if b"%00" in query or b"\0" in query:
            raise Invalid("The query contains a NUL character.")
        on_token = scope.get("state", {}).get(ON_TOKEN, _ignore)
        if scope["path"] in OPEN_PATHS and scope["type"] == "http" and scope["method"] in _SAFE_METHODS:
            with suppress(NoToken):
                self._authenticate(headers)
                on_token()
            return
        shown_by = self._authenticate(headers)
        on_token()
        self._require_origin(scope, headers, shown_by)
        for name in _SAID_ONCE:
            if len(headers.getlist(name)) > 1:
                raise Invalid(f"The header {name} must not be repeated.")

    def _require_host(self, hosts: list[str], authority: str | None) -> None:
        names = hosts if authority is None else [*hosts, authority]
        if len(hosts) != 1 or any(name.lower() not in self._access.hosts for name in names):
            raise Denied("Unknown Host header. Use the URL that the server printed, or add the name with --name.")

    def _authenticate(self, headers: Headers) -> Literal["bearer", "cookie"]:
        credentials = headers.getlist("authorization")
        if credentials:
            scheme, _, token = credentials[0].partition(" ")
            if len(credentials) > 1 or scheme.lower() != "bearer":
                raise NoToken("The header must be `Authorization: Bearer TOKEN`, once.")
            if self._access.token.matches(token.strip()):
                return "bearer"
            raise NoToken("Invalid token. `perdure token show` prints the token of this home.")
        sessions = _cookies(headers, self._access.cookie)
        session = next((value for value in sessions if self._access.sessions.is_open(value)), None)
        if session is not None:
            SESSION.set(session)
            return "cookie"
        raise NoToken(
            "Missing token: send `Authorization: Bearer …`. `perdure token show` prints it; a browser logs in with the"
            " URL that `perdure token url` prints."
        )

    def _require_origin(self, scope: Scope, headers: Headers, shown_by: Literal["bearer", "cookie"]) -> None:
        """Reject cross-origin requests, which a foreign page could send with the user's cookie."""
        is_upgrade = scope["type"] == "websocket"
        changes = not is_upgrade and scope["method"] not in _SAFE_METHODS
        is_stream = not is_upgrade and wants_stream(headers)
        origins = headers.getlist("origin")
        if is_upgrade or changes:
            if any(origin not in self._access.origins for origin in origins) or len(origins) > 1:
                raise Denied("Cross-origin request rejected.")
            if not origins and shown_by == "cookie":
                raise Denied("With a cookie, the request needs an Origin header.")
        if shown_by == "cookie" and not is_upgrade and (changes or is_stream):
            if headers.get("sec-fetch-site") != "same-origin":
                raise Denied("With a cookie, only same-origin requests are allowed.")
            if changes and headers.get("x-perdure") != "1":
                raise Denied("With a cookie, the header X-Perdure: 1 is needed.")


def _origin_form(scope: Scope) -> tuple[Scope, str | None]:
    """Return a scope with the path only, and the authority of an absolute request target.

    RFC 9112 requires servers to accept `GET http://host:port/path`, which proxies may send.
    """
    target = scope.get("raw_path") or b""
    if target[: len(_SCHEME)].lower() != _SCHEME:
        return scope, None
    authority, slash, path = target[len(_SCHEME) :].decode("ascii", "replace").partition("/")
    path = f"/{path}" if slash else "/"
    return {**scope, "path": unquote(path), "raw_path": path.encode()}, authority


def _ignore() -> None:
    """Do nothing, for servers that do not count connections."""


def wants_stream(headers: Headers) -> bool:
    """Return whether the request accepts an event stream."""
    return any("text/event-stream" in text.lower() for text in headers.getlist("accept"))


def _cookies(headers: Headers, name: str) -> list[str]:
    """Return the values of all cookies with a name.

    Other servers on this host can set cookies that browsers also send here, even with the same name. So malformed
    cookies are skipped, and every value with the name is tried.
    """
    pairs = [pair.partition("=") for text in headers.getlist("cookie") for pair in text.split(";")]
    return [value.strip() for key, _, value in pairs if key.strip() == name][:_MOST_COOKIES]


async def _read_body(scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
    """Read and parse the whole body; return a scope with the parsed value, and a receive function with the raw body.

    The scope is a copy, because that of the server lives as long as the connection.

    Raises: TooLarge; WrongType; BrokenJson; Invalid; _Gone.
    """
    headers = Headers(scope=scope)
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared[:19]) > LARGEST_BODY:
        raise _too_large()  # without waiting for a body that may never arrive
    body = await _whole_body(receive)
    if not body:
        return scope, _replayed(body, receive)
    _require_json(headers.getlist("content-type"))
    return {**scope, PARSED_BODY: await parse_json(body)}, _replayed(body, receive)


def _require_json(content_types: list[str]) -> None:
    """Check that the media type is JSON; the charset, if any, must be UTF-8.

    Raises: WrongType
    """
    if len(content_types) != 1:
        raise WrongType("The body must have one Content-Type: application/json.")
    kind, *parameters = (part.strip().lower() for part in content_types[0].split(";"))
    if kind != "application/json":
        raise WrongType(f"The body must be application/json, got {content_types[0][:80]!r}.")
    for parameter in parameters:
        name, _, value = (part.strip() for part in parameter.partition("="))
        if name == "charset" and value.strip('"') not in ("utf-8", "utf8"):
            raise WrongType(f"The body must be UTF-8, got {content_types[0][:80]!r}.")


def _too_large() -> TooLarge:
    return TooLarge(f"The body is larger than {LARGEST_BODY:,} bytes.")


async def _whole_body(receive: Receive) -> bytes:
    """Read a body; a slightly oversized one is read and discarded, so that the client receives the response.

    Raises: TooLarge; _Gone.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _Gone
        part: bytes = message.get("body", b"")
        size += len(part)
        is_last = not message.get("more_body", False)
        if size > _MOST_READ or (size > LARGEST_BODY and is_last):
            raise _too_large()
        if size <= LARGEST_BODY:
            parts.append(part)
        if is_last:
            return b"".join(parts)


def _as_get(scope: Scope) -> Scope:
    """Return a scope with GET for HEAD; the HTTP server omits the body.

    This excludes streams, which do not end, and the login, which would spend its code.
    """
    is_head = scope["type"] == "http" and scope["method"] == "HEAD" and scope["path"] != "/login"
    return {**scope, "method": "GET"} if is_head and not wants_stream(Headers(scope=scope)) else scope


def _replayed(body: bytes, receive: Receive) -> Receive:
    is_replayed = False

    async def receive_again() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _with_headers(send: Send, info: RequestInfo, scope: Scope) -> Send:
    """Wrap `send` so that every response gets the common headers and is logged."""

    async def send_with_headers(message: Message) -> None:
        kind = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            headers = list(message.get("headers", []))
            names = {name.lower() for name, _ in headers}
            headers += [(name, value) for name, value in ON_EVERY_ANSWER.items() if name not in names]
            headers.append((b"x-request-id", info.request_id.encode()))
            message = {**message, "headers": headers}
            log_answer(info, scope, message["status"])
        elif kind == "websocket.accept":
            message = {
                **message,
                "headers": [*message.get("headers", []), (b"x-request-id", info.request_id.encode())],
            }
            log_answer(info, scope, _SWITCHING)
        await send(message)

    return send_with_headers


async def _refuse(scope: Scope, receive: Receive, send: Send, response: Response) -> None:
    """Reject a request or an upgrade before any handler sees it."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    await response(scope, receive, send)
