"""The list of conversations with a bot, for people and programs."""

import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from perdure.errors import NotFound
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import CommandResult, Table
from perdure.interfaces.cli.goals.display.listing import status_of
from perdure.interfaces.cli.output.terminal import cut_to, one_line
from perdure.interfaces.cli.output.times import short_moment
from perdure.interfaces.cli.remote.ports.chat import ChatGoals
from perdure.interfaces.cli.remote.received_goals import read_goal
from perdure.interfaces.cli.shell_hints import pasteable
from perdure.statuses import FINAL
from perdure.text.moments import moment_us

if TYPE_CHECKING:
    from perdure.app.wire.resources.chat.conversations import Conversation

_HEADERS = ("conversation", "bot", "status", "last used", "messages", "title")
_TITLE = 48


async def last_open(goals: ChatGoals, bot: str) -> str:
    """Return the id of the conversation that was used last and has not ended.

    Raises: NotFound
    """
    async with aclosing(goals.conversations(bot)) as found:
        async for each in found:
            if each["goal"]["status"] not in FINAL:
                return each["goal"]["id"]
    raise NotFound(f"There is no conversation with {bot} to continue.")


async def list_conversations(options: Options, goals: ChatGoals, bot: str | None, limit: int) -> CommandResult:
    """Return the conversations with a bot, or with all bots, the last used first."""
    found: list[Conversation] = []
    for slug in await goals.bots() if bot is None else [bot]:
        found += await _newest(goals, slug, limit + 1)
    found.sort(key=lambda each: each["last_at"], reverse=True)
    has_more, found = len(found) > limit, found[:limit]
    if not found:
        begin = pasteable(options, f'perdure chat {bot or options.settings().chat_bot} "Hello"')
        whose = "" if bot is None else f" with {bot}"
        return CommandResult({"conversations": [], "has_more": False}, [f"No conversation{whose} yet: {begin}"])
    now_us = time.time_ns() // 1000
    more = ["There are more; raise --limit to show them."] if has_more else []
    table = Table(_HEADERS, [_cells(each, now_us) for each in found], whole=_HEADERS[:1])
    again = f"Continue one: {pasteable(options, 'perdure chat --resume ID')}"
    return CommandResult({"conversations": found, "has_more": has_more}, [table, *more, again])


async def _newest(goals: ChatGoals, bot: str, limit: int) -> "list[Conversation]":
    found: list[Conversation] = []
    async with aclosing(goals.conversations(bot)) as rows:
        async for each in rows:
            found.append(each)
            if len(found) == limit:
                break
    return found


def _cells(conversation: "Conversation", now_us: int) -> list[str]:
    goal = read_goal(conversation["goal"])
    used = short_moment(moment_us(conversation["last_at"]), now_us)
    title = cut_to(one_line(conversation["title"]), _TITLE)
    return [
        goal.id,
        conversation["goal"]["bot"] or "assistant",
        status_of(goal, now_us),
        used,
        str(conversation["messages"]),
        title,
    ]
