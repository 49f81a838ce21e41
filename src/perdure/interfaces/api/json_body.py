"""JSON in the bodies of requests and in frames, parsed beside the event loop when it is large."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from perdure.interfaces.api.problems import BrokenJson
from perdure.text.strict_json import NotJson
from perdure.text.strict_json import parse_json as parse_strictly

MOST_ON_LOOP_BYTES = 8 * 1024
"""A larger text is parsed in a thread of its own: a mebibyte of small numbers takes as long as a hundred requests."""

_PARSER = ThreadPoolExecutor(1, "perdure-json")
"""One thread, however many clients send large bodies: the event loop then waits for one other thread at most."""


async def parse_json(body: bytes, what: str = "The body") -> Any:
    """Parse strict JSON; a large text is parsed beside the event loop, one at a time.

    Raises: BrokenJson; Invalid for JSON with a value that cannot be stored.
    """
    try:
        if len(body) <= MOST_ON_LOOP_BYTES:
            return parse_strictly(body, what)
        return await asyncio.get_running_loop().run_in_executor(_PARSER, parse_strictly, body, what)
    except NotJson as error:
        raise BrokenJson(error.detail) from None
