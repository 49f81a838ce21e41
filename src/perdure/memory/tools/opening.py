"""The message with related records at the start of a goal: bounded in size and time; its errors do not stop a goal."""

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.errors import PerdureError
from perdure.kernel.conversation.messages import Message
from perdure.memory.index.words import words_in
from perdure.memory.tools.pins import is_pin
from perdure.memory.tools.ports import BotRecords
from perdure.memory.tools.quoting import quoted_all
from perdure.memory.tools.scope import RecallScope

log = logging.getLogger(__name__)

_MOST_BYTES = 8 * 1024
_LONGEST_BODY = 1500
_READ = 50
_BUDGET_MS = 50.0
_DEADLINE_S = 2.0
"""The budget covers a query; this also covers an index that is behind or has to be built."""
_LONGEST_TEXT = 2000
"""Maximum number of characters of a goal's text that are searched for; the rest is ignored."""
_PATH = re.compile(r"(?<![\w/:])(?:[\w.-]+/)+[\w.-]*\w|(?<![\w/:])[\w-]+\.[A-Za-z][A-Za-z0-9]{0,7}\b")
"""A path, or the name of a file."""
_MOST_PATHS = 10
_SHORTEST_WORD = 4
_COMMON = frozenset(
    words_in(
        "about after also because been before being both could does done down each every from have here into itself"
        " just like make more most must need only other over please should some such than that their them then there"
        " these they this those through under until very want were what when where which while will with would your"
    )
)
"""Words of four letters or more that are not searched for: nearly every record has one of them."""


async def opening_message(records: BotRecords, scope: RecallScope, text: str, most_records: int) -> Sequence[Message]:
    """Return one message with the records that are related to the text of a goal; empty when there are none.

    The result is empty, too, if the memory is slow, locked, damaged or switched off.
    """
    try:
        candidates = await asyncio.wait_for(_find(records, text), _DEADLINE_S)
    except TimeoutError:
        log.warning("the memory did not answer within %g s; the goal begins without related records", _DEADLINE_S)
        return ()
    except (PerdureError, OSError) as error:
        log.warning("the goal begins without related records: %s", error)
        return ()
    allowed = [record for record in candidates if scope.includes(record) and not is_pin(record, scope.bot)]
    quote, ids = quoted_all(allowed[:most_records], _LONGEST_BODY, _MOST_BYTES)
    return [Message(quote, "context", "memory", tuple(ids))] if ids else ()


async def _find(records: BotRecords, text: str) -> Sequence[Mapping[str, Any]]:
    """Return records about the files that a text names, then those with its words, best match first."""
    text = text[:_LONGEST_TEXT]
    matches: list[Mapping[str, Any]] = []
    if paths := _paths_in(text):
        matches += (await records.related(paths=paths, limit=_READ, budget_ms=_BUDGET_MS))["matches"]
    words = [word for word in words_in(text) if _is_specific(word)]
    if words:
        matches += (await records.search(" ".join(words), limit=_READ, budget_ms=_BUDGET_MS))["matches"]
    records_by_id = {match["record"]["id"]: match["record"] for match in matches}
    return [*records_by_id.values()]


def _paths_in(text: str) -> list[str]:
    paths = (each.removeprefix("./") for each in _PATH.findall(text))
    return [path for path in dict.fromkeys(paths) if ".." not in path][:_MOST_PATHS]


def _is_specific(word: str) -> bool:
    """Return whether a word is specific to a goal: a long one, or any in a script without spaces."""
    return not word.isascii() or (len(word) >= _SHORTEST_WORD and word not in _COMMON)
