"""What can be wrong with a request that no use case knows of: one class each, with its code and its HTTP status."""

from perdure.errors import Conflict, Invalid


class BrokenJson(Invalid):
    """The body is not JSON at all."""

    code = "broken_json"
    title = "Broken JSON"
    http_status = 400


class BrokenRequest(Invalid):
    """What was sent is not HTTP."""

    code = "broken_request"
    title = "Broken request"
    http_status = 400


class NoSuchMethod(Invalid):
    """The path is there, and cannot be used like that."""

    code = "no_such_method"
    title = "No such method"
    http_status = 405


class Stale(Conflict):
    """It is not what the client has seen, as its If-Match tells."""

    code = "stale"
    title = "Stale"
    http_status = 412


class TooLarge(Invalid):
    """More than we read."""

    code = "too_large"
    title = "Too large"
    http_status = 413


class WrongType(Invalid):
    """Not JSON."""

    code = "wrong_media_type"
    title = "Wrong media type"
    http_status = 415
