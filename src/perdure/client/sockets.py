"""Opens sockets to a server: with the token, without a proxy or redirects."""

from websockets.asyncio.client import connect

from perdure.client.connection import Connection

_LARGEST_FRAME = 64 << 20
"""Bytes. One event is one frame, and a turn with 1 MiB of text is larger than the default of 1 MiB."""


def open_socket(connection: Connection, path: str) -> connect:
    """Return a connection to a path, to be awaited or used as a context manager."""
    return _Direct(
        connection.socket_url(path), additional_headers=connection.headers, proxy=None, max_size=_LARGEST_FRAME
    )


class _Direct(connect):
    """A connection that does not follow redirects, because its headers are only for that server."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """See connect.process_redirect."""
        return exc
