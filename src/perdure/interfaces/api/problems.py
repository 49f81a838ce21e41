"""Errors of HTTP requests themselves, with their codes and statuses."""

from perdure.errors import Conflict, Invalid


class BrokenJson(Invalid):
    """The body is not JSON."""

    code = "broken_json"
    title = "Broken JSON"
    http_status = 400


class BrokenRequest(Invalid):
    """The received bytes are not an HTTP request."""

    code = "broken_request"
    title = "Broken request"
    http_status = 400


class NoSuchMethod(Invalid):
    """The path exists, but does not support the method."""

    code = "no_such_method"
    title = "No such method"
    http_status = 405


class Stale(Conflict):
    """`If-Match` does not match the current ETag."""

    code = "stale"
    title = "Stale"
    http_status = 412


class TooLarge(Invalid):
    """The request exceeds a size limit."""

    code = "too_large"
    title = "Too large"
    http_status = 413


class WrongType(Invalid):
    """The media type of the body is not JSON."""

    code = "wrong_media_type"
    title = "Wrong media type"
    http_status = 415
