"""Parses JSON bodies and frames; large ones on a thread."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from perdure.interfaces.api.problems import BrokenJson
from perdure.text.strict_json import NotJson
from perdure.text.strict_json import parse_json as parse_strictly

MOST_ON_LOOP_BYTES = 8 * 1024
"""The maximum size that is parsed on the event loop: parsing a mebibyte takes as long as a hundred requests."""

_PARSER = ThreadPoolExecutor(1, "perdure-json")
"""One thread for all clients, so that parsing large bodies delays the event loop by one thread at most."""


async def parse_json(body: bytes, what: str = "The body") -> Any:
    """Parse strict JSON; large texts are parsed on a thread, one at a time.

    Raises: BrokenJson; Invalid for JSON with a value that cannot be stored.
    """
    try:
        if len(body) <= MOST_ON_LOOP_BYTES:
            return parse_strictly(body, what)
        return await asyncio.get_running_loop().run_in_executor(_PARSER, parse_strictly, body, what)
    except NotJson as error:
        raise BrokenJson(error.detail) from None
