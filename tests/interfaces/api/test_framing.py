"""Where a request ends: what two parsers could read in two ways is rejected, and its connection is closed."""

import logging

import pytest

from perdure.interfaces.api.protocols.http import MOST_PARTS
from perdure.interfaces.api.server import Running
from tests.interfaces.api.test_wire import connected, request, rest

BODY = '{"command": "true"}'
SECOND = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
CHUNKED = f"{len(BODY):x}\r\n{BODY}\r\n0\r\n\r\n"

AMBIGUOUS = {
    "both": ("Content-Length: 5", "Transfer-Encoding: chunked"),
    "both, the other way round": ("Transfer-Encoding: chunked", "Content-Length: 5"),
    "both, in any case": ("TRANSFER-ENCODING: Chunked", "content-length: 5"),
    "both, folded": ("Transfer-Encoding:\r\n chunked", "Content-Length: 5"),
    "folded": ("X-Folded: a\r\n b", f"Content-Length: {len(CHUNKED)}"),
    "folded by a tab": ("X-Folded: a\r\n\tContent-Length: 0", f"Content-Length: {len(CHUNKED)}"),
    "two codings": ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
    "the same coding twice": ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    "a list of codings": ("Transfer-Encoding: chunked, identity",),
    "chunked twice": ("Transfer-Encoding: chunked, chunked",),
    "an unknown coding": ("Transfer-Encoding: xchunked",),
    "a coding with a quirk": ("Transfer-Encoding: \x0bchunked",),
    "two lengths": ("Content-Length: 5", "Content-Length: 6"),
    "the same length twice": ("Content-Length: 5", "Content-Length: 5"),
    "a list of lengths": ("Content-Length: 5, 5",),
    "a signed length": ("Content-Length: +5",),
    "a negative length": ("Content-Length: -5",),
    "a length in hex": ("Content-Length: 0x5",),
    "a length with an underscore": ("Content-Length: 1_5",),
    "no length": ("Content-Length:",),
    "a space before the colon": ("Content-Length : 5",),
}


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """What is tried here has nothing to do with the database."""
    return str(request.param)


@pytest.mark.parametrize("headers", AMBIGUOUS.values(), ids=AMBIGUOUS)
async def test_a_body_whose_end_is_not_plain_is_400_and_nothing_after_it_is_read(
    server: Running, caplog: pytest.LogCaptureFixture, headers: tuple[str, ...]
) -> None:
    sent = request(server, "POST /api/v1/goals", "Content-Type: application/json", *headers, body=CHUNKED + SECOND)
    with caplog.at_level(logging.WARNING):
        answer = await rest(await connected(server, sent))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"connection: close" in answer
    assert await server.surface.p.goals.list() == []
    assert caplog.records == []


async def test_a_body_whose_end_is_plain_is_read(server: Running) -> None:
    plain = ("Connection: close", "Content-Type: application/json")
    for headers, body in (((f"Content-Length: {len(BODY)}",), BODY), (("Transfer-Encoding: chunked",), CHUNKED)):
        sent = request(server, "POST /api/v1/goals", *plain, *headers, body=body)
        assert (await rest(await connected(server, sent))).startswith(b"HTTP/1.1 201 ")


async def test_a_body_of_endless_tiny_chunks_is_not_read_to_its_end(server: Running) -> None:
    headers = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    sent = request(server, "POST /api/v1/goals", *headers, body="1\r\n \r\n" * (MOST_PARTS + 1))
    assert (await rest(await connected(server, sent))).startswith(b"HTTP/1.1 400 ")


async def test_a_body_that_was_refused_is_not_read_and_the_answer_arrives(server: Running) -> None:
    headers = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    sent = request(server, "POST /api/v1/goals", *headers, body="1\r\n \r\n" * (1 << 18), is_known=False)
    assert (await rest(await connected(server, sent))).startswith(b"HTTP/1.1 401 ")
