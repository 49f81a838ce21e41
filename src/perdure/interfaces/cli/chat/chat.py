"""`perdure chat`: talk with a bot, or ask it one thing."""

import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any

import typer

from perdure.app import open_home
from perdure.app.conversations.here import ConversationsHere
from perdure.app.goals.arguments.policies import read_policy
from perdure.app.goals.values import Ask, NoModel, ToolCall
from perdure.errors import Invalid, NotFound
from perdure.interfaces.cli.chat.conversation import Conversation
from perdure.interfaces.cli.chat.display import (
    Display,
    PlainDisplay,
    RichDisplay,
    SilentDisplay,
    call_line,
    print_frame,
)
from perdure.interfaces.cli.chat.interactive import Interactive, why_no_answer
from perdure.interfaces.cli.chat.listing import last_open, list_conversations
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.goals.flags import WHAT_PRESETS_ALLOW, reject_both
from perdure.interfaces.cli.remote.chat import ServerConversations
from perdure.interfaces.cli.remote.connection import connected
from perdure.interfaces.cli.remote.ports.chat import ChatGoals, ChatPort
from perdure.interfaces.cli.shell_hints import pasteable

_LONGEST_INPUT = 400_000
_EXIT_CODES = {"person": 5, "limit": 6, "model": 8}


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "chat", server=True)(chat)


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SLUG] [MESSAGE]",
        help="The bot (default: setting `chat.bot`) and one message; `-`: read the message from standard input.",
    ),
]
Continue = Annotated[bool, typer.Option("--continue", help="Continue the last conversation with the bot.")]
Resume = Annotated[
    str | None, typer.Option("--resume", metavar="[ID]", help="Continue a conversation; without an ID, list them.")
]
Fork = Annotated[
    str | None,
    typer.Option("--fork", metavar="ID@SEQ", help="Fork a conversation after event SEQ and continue in the fork."),
]
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="The model, as provider:name.")]
Jsonl = Annotated[
    bool,
    typer.Option("--jsonl", help="With a message: print each frame of the socket as one line of JSON, as it comes."),
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="PRESET",
        help=f"The policy for calls of the model (default: policy.preset). {WHAT_PRESETS_ALLOW}",
    ),
]
ListThem = Annotated[
    bool, typer.Option("--list", help="List the conversations with the bot, or with all bots, the last used first.")
]
Limit = Annotated[
    int, typer.Option("--limit", min=1, max=1000, metavar="N", help="With --list: maximum number of conversations.")
]


async def chat(  # noqa: PLR0913, PLR0917 (each is an option of the command)
    options: Options,
    words: Words = None,
    continue_: Continue = False,
    resume: Resume = None,
    fork: Fork = None,
    model: Model = None,
    policy: Policy = None,
    list_: ListThem = False,
    limit: Limit = 50,
    jsonl: Jsonl = False,
) -> CommandResult:
    """Talk with a bot, or with the built-in assistant. Conversations are kept, and can be continued.

    With a message, prints the answer and exits: 0 after an answer, 5 if a call waits for approval, 6 at a limit, 8 if
    the model does not answer.
    """
    reject_both(json=options.json, jsonl=jsonl)
    is_named = resume is not None or fork is not None
    _require_one_place(continue_=continue_, resume=resume, fork=fork, policy=policy)
    bot, message = _bot_and_message(options, words or [], is_named=is_named)
    judged_by = None if policy is None else {"preset": policy}
    read_policy(judged_by)
    async with _opened(options) as (port, goals):
        if list_:
            return await list_conversations(options, goals, words[0] if words else None, limit)
        default = None
        is_silent = options.json or jsonl
        display = _display(is_silent=is_silent, is_single=message is not None)
        talk = Conversation(port, goals, display, on_frame=print_frame if jsonl else None)
        if message is None:
            _require_terminal(options, is_silent=is_silent)
        if message is None and not is_named:
            default = await _model_of(options, goals, bot, model, is_new=not continue_)
        place = await last_open(goals, bot) if continue_ else resume
        await _take_up(talk, place, fork, model)
        if message is None:
            await Interactive(options, talk, bot=talk.bot or bot, model=model or default, policy=judged_by).run()
            return _left(options, talk)
        try:
            if talk.goal_id is None:
                await talk.begin(message, bot=bot, model=model, policy=judged_by)
            else:
                await talk.say(message)
        finally:
            display.reset()
        return replace(_answered(options, talk), is_printed=jsonl)


def _require_one_place(*, continue_: bool, resume: str | None, fork: str | None, policy: str | None) -> None:
    """Raises: Invalid for options that contradict each other."""
    given = sum((continue_, resume is not None, fork is not None))
    if given > 1:
        raise Invalid("Use at most one of --continue, --resume and --fork.")
    if given and policy is not None:
        raise Invalid("--policy is for a new conversation. In one that is continued, /policy changes it, in a fork.")


def _bot_and_message(options: Options, words: list[str], *, is_named: bool) -> tuple[str, str | None]:
    """Return the bot, and the message if there is one; a named conversation has a bot, so a single word is a message.

    Raises: Invalid
    """
    default = options.settings().chat_bot
    if len(words) > 2:
        raise Invalid("Give at most a bot and a message; put a message of several words in quotes.")
    is_message = len(words) == 1 and (is_named or words[0] == "-" or not _is_slug(words[0]))
    bot = words[0] if words and not is_message else default
    message = words[-1] if is_message or len(words) == 2 else None
    if message == "-":
        message = sys.stdin.read(_LONGEST_INPUT).strip()
    return bot, message


def _require_terminal(options: Options, *, is_silent: bool) -> None:
    """Raises: Invalid when no person can be asked."""
    if options.no_input or is_silent or not sys.stdin.isatty():
        raise Invalid("There is no terminal to talk in. Give a message, or - to read it from standard input.")


async def _model_of(options: Options, goals: ChatGoals, bot: str, model: str | None, *, is_new: bool) -> str | None:
    """Return the model of a new conversation; one that is continued has its own.

    Raises: NotFound when there is no such bot: the word may have been a message; Unavailable when no model is
    configured.
    """
    try:
        return await goals.model_of(bot, model)
    except NotFound as error:
        flags = [] if is_new else ["--continue"]
        words = ["perdure", "chat", *flags, options.settings().chat_bot, bot]
        instead = pasteable(options, shlex.join(words))
        raise NotFound(
            f"{error.detail} A single word is read as the name of a bot. To send it as a message: {instead}"
        ) from error
    except NoModel:
        if is_new:
            raise
        return None


def _is_slug(word: str) -> bool:
    return word.isascii() and word.replace("-", "").isalnum() and word == word.lower()


@asynccontextmanager
async def _opened(options: Options) -> AsyncIterator[tuple[ChatPort, ChatGoals]]:
    """Yield the conversations that the command works with."""
    if options.server is None:
        async with open_home(options.settings(), debug=options.verbose) as p:
            here = ConversationsHere(p.goals)
            try:
                yield here, here
            finally:
                await here.close()
        return
    async with connected(options.server) as client:
        server = ServerConversations(client)
        yield server, server


def _display(*, is_silent: bool, is_single: bool) -> Display:
    if is_silent:
        return SilentDisplay()
    is_plain = is_single and not sys.stdout.isatty()
    return PlainDisplay() if is_plain else RichDisplay(is_interactive=not is_single)


async def _take_up(talk: Conversation, resume: str | None, fork: str | None, model: str | None) -> None:
    """Open the conversation that was named, or a fork of it, and change its model if one is given.

    Raises: NotFound; Conflict; Invalid when the place of the fork is none.
    """
    if resume is not None:
        await talk.open(resume)
    if fork is not None:
        goal_id, _, seq = fork.rpartition("@")
        if not goal_id or not (seq.isascii() and seq.isdigit()):
            raise Invalid(f"--fork takes ID@SEQ, such as 20261119-1200-hello-1a2b@4; found {fork[:80]!r}.")
        await talk.open(goal_id)
        await talk.fork(at=int(seq))
    if talk.goal_id is not None and model is not None:
        await talk.resume(model)


def _answered(options: Options, talk: Conversation) -> CommandResult:
    code = _EXIT_CODES.get(talk.waiting_for or "", 0)
    data: dict[str, Any] = {"goal_id": talk.goal_id, "text": talk.answer, "waiting_for": talk.waiting_for}
    failure = None if talk.state is None else talk.state.conversation.failure
    fault = None
    if talk.waiting_for == "model" and failure is not None:
        fault = why_no_answer(options, failure, talk.goal_id)
    elif code:
        fault = _why_it_waits(options, talk)
    return CommandResult(data, exit_code=code, fault=fault)


def _why_it_waits(options: Options, talk: Conversation) -> str:
    """Say what a conversation waits for, and how it is continued."""
    if not talk.open_calls:
        return f"A limit is reached: {pasteable(options, f'perdure goal show {talk.goal_id}')}"
    call = talk.open_calls[0].call
    what = f"It asks: {call.question}" if isinstance(call, Ask) else "It waits for a decision"
    if isinstance(call, ToolCall):
        what = f"It waits for your approval of {call_line(call.tool, call.arguments, '')}".rstrip(".")
    return f"{what}. To decide: {pasteable(options, f'perdure chat --resume {talk.goal_id}')}"


def _left(options: Options, talk: Conversation) -> CommandResult:
    """Say how the conversation is continued."""
    if talk.goal_id is None:
        return CommandResult({"goal_id": None})
    again = pasteable(options, f"perdure chat --resume {talk.goal_id}")
    return CommandResult({"goal_id": talk.goal_id}, [f"Continue: {again}"])
