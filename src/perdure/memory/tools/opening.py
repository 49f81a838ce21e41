"""What the memory knows about a goal, as the goal begins: bounded in size and time, and never a reason to stop."""

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
from perdure.memory.tools.scope import Reach

log = logging.getLogger(__name__)

_MOST_BYTES = 8 * 1024
_LONGEST_BODY = 1500
_READ = 50
_BUDGET_MS = 50.0
_DEADLINE_S = 2.0
"""The budget covers a query; this also covers an index that is behind or has to be built."""
_LONGEST_TEXT = 2000
"""So much of a goal's text is searched for: what matters is said at the beginning."""
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
"""Words of four letters or more that say nothing about a goal. Without them every goal would have related records."""


async def opening_message(records: BotRecords, reach: Reach, text: str, most_records: int) -> Sequence[Message]:
    """Return one message with the records that are related to the text of a goal; nothing when there are none.

    A memory that is slow, locked, damaged or switched off gives nothing.
    """
    try:
        found = await asyncio.wait_for(_find(records, text), _DEADLINE_S)
    except TimeoutError:
        log.warning("the memory did not answer within %g s; the goal begins without related records", _DEADLINE_S)
        return ()
    except (PerdureError, OSError) as error:
        log.warning("the goal begins without related records: %s", error)
        return ()
    within = [record for record in found if reach.includes(record) and not is_pin(record, reach.bot)]
    quote, ids = quoted_all(within[:most_records], _LONGEST_BODY, _MOST_BYTES)
    return [Message(quote, "context", "memory", tuple(ids))] if ids else ()


async def _find(records: BotRecords, text: str) -> Sequence[Mapping[str, Any]]:
    """Return records about the files that a text names, then those with its words, best match first."""
    text = text[:_LONGEST_TEXT]
    matches: list[Mapping[str, Any]] = []
    if paths := _paths_in(text):
        matches += (await records.related(paths=paths, limit=_READ, budget_ms=_BUDGET_MS))["matches"]
    words = [word for word in words_in(text) if _is_telling(word)]
    if words:
        matches += (await records.search(" ".join(words), limit=_READ, budget_ms=_BUDGET_MS))["matches"]
    found = {match["record"]["id"]: match["record"] for match in matches}
    return [*found.values()]


def _paths_in(text: str) -> list[str]:
    named = (each.removeprefix("./") for each in _PATH.findall(text))
    return [path for path in dict.fromkeys(named) if ".." not in path][:_MOST_PATHS]


def _is_telling(word: str) -> bool:
    """Return whether a word tells what a goal is about; words of scripts without spaces are short."""
    return not word.isascii() or (len(word) >= _SHORTEST_WORD and word not in _COMMON)
