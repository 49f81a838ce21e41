"""What goes over the wire: requests with the token, answers out of their envelope, problems as errors."""

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
"""A connection that broke: the request may have been served, and its answer is lost."""


class Connection:
    """The way to one server. A redirect is not followed: the token is for that server alone."""

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
        """Send a request, and return the whole envelope of its answer.

        Raises: the PerdureError that the server tells; Invalid, before anything is sent, when it cannot be; Unavailable
        when there is no answer, or none of a server of ours.
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
        """Send a request; once more when its answer was lost and it can be repeated without doing anything twice.

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
        """Put a request together; nothing is sent yet. Raises: Invalid."""
        given = {name: require_header(name, value) for name, value in headers.items() if value is not None}
        asked = {name: value for name, value in query.items() if value is not None}
        content = None if body is None else to_json(body)
        if content is not None:
            given["Content-Type"] = "application/json"
        try:
            return self._http.build_request(method, BASE + path, content=content, params=asked, headers=given)
        except (httpx.InvalidURL, TypeError, ValueError) as error:
            raise Invalid(f"This can be no request: {error}. Nothing was sent.") from error

    async def data(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Send a request, and return the data of its answer."""
        return (await self.ask(method, path, body, **more))["data"]

    async def each(self, path: str, **query: Any) -> AsyncIterator[Any]:
        """Give all items of a list, page by page."""
        cursor: str | None = None
        while True:
            found = await self.ask("GET", path, query={**query, "cursor": cursor})
            for item in found["data"]:
                yield item
            cursor = found["meta"].get("next_cursor")
            if cursor is None:
                return


def _server(url: str) -> str:
    """Return the address of a server, without a slash at its end.

    Raises: Invalid, which does not repeat a password; also when the token would go to another machine unencrypted.
    """
    if "@" in str(url):
        raise Invalid("The address of a server has no user and no password: the token says who asks.")
    try:
        found = httpx.URL(url)
    except (httpx.InvalidURL, TypeError, ValueError) as error:
        raise Invalid(f"{url!r} is not the URL of a server: {error}.") from error
    is_whole = found.scheme in ("http", "https") and found.host
    if not is_whole or found.path.strip("/") or found.query or found.fragment:
        raise Invalid(f"{url!r} is not the URL of a server. Expected one such as http://127.0.0.1:8733.")
    if found.scheme == "http" and not _is_this_machine(found.host):
        raise Invalid(
            f"{url!r} is another machine, and over http:// the token could be read on the way. Use https://, or a"
            " tunnel such as `ssh -L 8733:127.0.0.1:8733 HOST` and http://127.0.0.1:8733. Nothing was sent."
        )
    return str(url).rstrip("/")


def _trusted(url: str) -> ssl.SSLContext | bool:
    """Return which authorities are trusted: for https those of httpx, otherwise none.

    To read the certificates of all authorities takes longer than a request. Without them no TLS connection is possible.
    """
    return True if httpx.URL(url).scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _is_this_machine(host: str) -> bool:
    """Tell whether what is sent to a host stays on this machine, by its name alone: no resolver is asked."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _envelope(answer: httpx.Response) -> dict[str, Any]:
    """Raises: Unavailable when the answer is none of a server of ours."""
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict) or "data" not in found or not isinstance(found.get("meta"), dict):
        raise _not_ours(answer)
    return found


def _told(answer: httpx.Response) -> PerdureError:
    """Make the error that a server tells of one of ours."""
    try:
        problem = answer.json()
        detail, code = str(problem["detail"]), problem.get("code")
        told = [str(each.get("detail", each)) for each in problem.get("errors", [])]
    except (ValueError, KeyError, TypeError, AttributeError):
        return _not_ours(answer)
    kind = _BY_CODE.get(code) or _BY_STATUS.get(answer.status_code, PerdureError)
    return _made(kind, detail, told, problem.get("current"))


def _not_ours(answer: httpx.Response) -> Unavailable:
    """Return the error for an answer of another program: a proxy that cannot reach the server, or another server."""
    url = answer.request.url.copy_with(raw_path=b"/")
    return Unavailable(
        f"{str(url).rstrip('/')} answered with status {answer.status_code}, and not as a Perdure server does. Check the"
        " address, and what stands in front of the server."
    )


def refused(status: int, what: str) -> PerdureError:
    """Make an error of ours of the status with which a server refuses to open a socket about something."""
    kind = _BY_STATUS.get(status, Unavailable)
    return kind(f"There is no {what}." if kind is NotFound else f"The server refused the connection: {status}.")


def told_by_frame(frame: Mapping[str, Any]) -> PerdureError:
    """Make the error that a frame of a socket tells of one of ours; a conflict has what is there now."""
    current = {name: frame[name] for name in ("turn", "revision") if name in frame}
    return _made(_BY_CODE.get(str(frame["code"]), PerdureError), str(frame["message"]), [], current or None)


def _made(
    kind: type[PerdureError], detail: str, errors: Sequence[str], current: Mapping[str, Any] | None
) -> PerdureError:
    return kind(detail, errors=errors, current=current) if issubclass(kind, Conflict) else kind(detail, errors=errors)
