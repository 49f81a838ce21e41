"""Sends requests with the token, unwraps responses, and raises problems as errors."""

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

import httpx

from perdure.client.sending import require_header, to_json
from perdure.errors import (
    Conflict,
    Damaged,
    Denied,
    Exhausted,
    Invalid,
    KeyTaken,
    NotFound,
    NoToken,
    Over,
    PerdureError,
    Unavailable,
    Waiting,
)

BASE = "/api/v1"


_KINDS = (Invalid, NotFound, Over, Conflict, KeyTaken, Denied, NoToken, Waiting, Exhausted, Damaged, Unavailable)
_BY_CODE = {kind.code: kind for kind in _KINDS} | {"stale": Conflict, "broken_json": Invalid}
_BY_STATUS: Mapping[int, type[PerdureError]] = {
    400: Invalid,
    401: NoToken,
    403: Denied,
    404: NotFound,
    405: Invalid,
    409: Conflict,
    410: Over,
    412: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: Exhausted,
    503: Unavailable,
}


_LOST = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
"""Errors of a broken connection: the request may have been executed, but its response is lost."""


class Connection:
    """The HTTP connection to one server. Redirects are not followed, because the token is only for that server."""

    def __init__(self, url: str, token: str, *, timeout_s: float = 30.0) -> None:
        self.url = _server(url)
        self.headers = {"Authorization": f"Bearer {require_header('The token', token)}"}
        self._http = httpx.AsyncClient(
            base_url=self.url, headers=self.headers, timeout=timeout_s, trust_env=False, verify=_trusted(self.url)
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    def socket_url(self, path: str) -> str:
        """Return the address of a socket."""
        scheme, _, rest = self.url.partition("://")
        return f"{'wss' if scheme == 'https' else 'ws'}://{rest}{path}"

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> dict[str, Any]:
        """Send a request, and return the whole envelope of its response.

        Raises: the PerdureError of the response; Invalid, before anything is sent, when the request is invalid;
        Unavailable without a response, or if it is not from a Perdure server.
        """
        request = self._request(method, path, body, query or {}, headers or {})
        try:
            answer = await self._answer(request)
        except httpx.HTTPError as error:
            raise Unavailable(f"{self.url} does not answer: {error or type(error).__name__}.") from error
        if answer.is_success:
            return _envelope(answer)
        raise _told(answer)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        """Send a request; repeat it once if the response was lost and the request is idempotent.

        Raises: httpx.HTTPError
        """
        is_repeatable = request.method in ("GET", "PUT") or "Idempotency-Key" in request.headers
        try:
            return await self._http.send(request)
        except _LOST:
            if not is_repeatable:
                raise
        return await self._http.send(request)

    def _request(
        self, method: str, path: str, body: Any, query: Mapping[str, Any], headers: Mapping[str, str | None]
    ) -> httpx.Request:
        """Build a request without sending it. Raises: Invalid."""
        sent_headers = {name: require_header(name, value) for name, value in headers.items() if value is not None}
        params = {name: value for name, value in query.items() if value is not None}
        content = None if body is None else to_json(body)
        if content is not None:
            sent_headers["Content-Type"] = "application/json"
        try:
            return self._http.build_request(method, BASE + path, content=content, params=params, headers=sent_headers)
        except (httpx.InvalidURL, TypeError, ValueError) as error:
            raise Invalid(f"Invalid request: {error}. Nothing was sent.") from error

    async def data(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Send a request, and return the data of its response."""
        return (await self.ask(method, path, body, **more))["data"]

    async def each(self, path: str, **query: Any) -> AsyncIterator[Any]:
        """Yield all items of a list, page by page."""
        cursor: str | None = None
        while True:
            found = await self.ask("GET", path, query={**query, "cursor": cursor})
            for item in found["data"]:
                yield item
            cursor = found["meta"].get("next_cursor")
            if cursor is None:
                return


def _server(url: str) -> str:
    """Return the URL of a server without a trailing slash.

    Raises: Invalid, without repeating a password; also if the token would be sent to another machine unencrypted.
    """
    if "@" in str(url):
        raise Invalid("The URL of a server must not have a user or password; the token authenticates the client.")
    try:
        found = httpx.URL(url)
    except (httpx.InvalidURL, TypeError, ValueError) as error:
        raise Invalid(f"Invalid URL of a server {url!r}: {error}.") from error
    is_whole = found.scheme in ("http", "https") and found.host
    if not is_whole or found.path.strip("/") or found.query or found.fragment:
        raise Invalid(f"Invalid URL of a server {url!r}: expected one such as http://127.0.0.1:8733.")
    if found.scheme == "http" and not _is_this_machine(found.host):
        raise Invalid(
            f"{url!r} is another machine, and over http:// the token would be sent unencrypted. Use https://, or a"
            " tunnel such as `ssh -L 8733:127.0.0.1:8733 HOST` and http://127.0.0.1:8733. Nothing was sent."
        )
    return str(url).rstrip("/")


def _trusted(url: str) -> ssl.SSLContext | bool:
    """Return the trusted authorities: for https those of httpx, else none.

    Loading the certificates of all authorities takes longer than a request, so it is omitted if TLS is not used.
    """
    return True if httpx.URL(url).scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _is_this_machine(host: str) -> bool:
    """Return whether a host is this machine, by its name or address, without resolving it."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _envelope(answer: httpx.Response) -> dict[str, Any]:
    """Return the envelope of a response.

    Raises: Unavailable when the response is not from a Perdure server.
    """
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict) or "data" not in found or not isinstance(found.get("meta"), dict):
        raise _not_ours(answer)
    return found


def _told(answer: httpx.Response) -> PerdureError:
    """Return the error that a response describes."""
    try:
        problem = answer.json()
        detail, code = str(problem["detail"]), problem.get("code")
        errors = [str(each.get("detail", each)) for each in problem.get("errors", [])]
    except (ValueError, KeyError, TypeError, AttributeError):
        return _not_ours(answer)
    kind = _BY_CODE.get(code) or _BY_STATUS.get(answer.status_code, PerdureError)
    return _made(kind, detail, errors, problem.get("current"))


def _not_ours(answer: httpx.Response) -> Unavailable:
    """Return the error for a response of another program, such as a proxy that cannot reach the server."""
    url = answer.request.url.copy_with(raw_path=b"/")
    return Unavailable(
        f"Unexpected response with status {answer.status_code} from {str(url).rstrip('/')}: not a Perdure server. Check"
        " the URL, and proxies in front of the server."
    )


def refused(status: int, what: str) -> PerdureError:
    """Return the error for the status of a rejected socket; `what` names the requested resource."""
    kind = _BY_STATUS.get(status, Unavailable)
    return kind(f"There is no {what}." if kind is NotFound else f"The server rejected the connection: {status}.")


def told_by_frame(frame: Mapping[str, Any]) -> PerdureError:
    """Return the error that a frame of a socket describes; a conflict has the present state as `current`."""
    current = {name: frame[name] for name in ("turn", "revision") if name in frame}
    return _made(_BY_CODE.get(str(frame["code"]), PerdureError), str(frame["message"]), [], current or None)


def _made(
    kind: type[PerdureError], detail: str, errors: Sequence[str], current: Mapping[str, Any] | None
) -> PerdureError:
    return kind(detail, errors=errors, current=current) if issubclass(kind, Conflict) else kind(detail, errors=errors)
