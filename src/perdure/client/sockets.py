"""Sockets to a server: with the token, without a proxy, and to that server alone."""

from websockets.asyncio.client import connect

from perdure.client.connection import Connection


def open_socket(connection: Connection, path: str) -> connect:
    """Return a socket at a path, to be awaited or entered."""
    return _Direct(connection.socket_url(path), additional_headers=connection.headers, proxy=None)


class _Direct(connect):
    """A connection that follows no redirect: what it has in its headers is for that server alone."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """See connect.process_redirect."""
        return exc
