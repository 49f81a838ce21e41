"""A conversation that a person leads in a terminal: the prompt, slash commands, approvals, and Ctrl-C."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

from perdure.app.conversations.summaries import can_be_summarised
from perdure.app.goals.arguments.policies import read_policy
from perdure.app.goals.values import Ask, ModelFailure, ModelTurn, ToolCall, TranscriptSummary
from perdure.errors import PerdureError
from perdure.interfaces.cli.chat.conversation import Conversation
from perdure.interfaces.cli.chat.prompt import Prompt, silent_keys
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.goals.display.hints import call_text
from perdure.interfaces.cli.output.terminal import cut_to, lines, one_line
from perdure.interfaces.cli.remote.opened import records_of
from perdure.interfaces.cli.shell_hints import pasteable

_HELP = """\
/undo            remove the last message, in a fork
/retry           ask the last message again, in a fork
/fork [SEQ]      continue in a fork, after an event; without SEQ, list the events
/approve, /deny  decide about the call that waits
/remember TEXT   add a record to the memory
/model [NAME]    show the model, or change it
/policy [PRESET] show what the model may do without asking, or change it, in a fork
/cost            show tokens and dollars
/compact         summarise the beginning, to make room and to pay less
/clear           begin a new conversation
/exit            leave
Enter sends; Alt-Enter or a backslash at the end breaks the line. Ctrl-C stops an answer."""
_TITLE = 80
_APPROVAL = {"y": "approve", "yes": "approve", "n": "deny", "no": "deny"}
_LEAVING = dict.fromkeys(("/quit", "/q", "/bye", "/leave", "/close"), "/exit")
"""What other programs call it."""
_UNKNOWN = {word: word for word in ("skip", "retry", "abort")}


class Interactive:
    """Leads one conversation after the other, until the person leaves."""

    def __init__(
        self,
        options: Options,
        talk: Conversation,
        *,
        bot: str,
        model: str | None,
        policy: Mapping[str, Any] | None,
    ) -> None:
        self._options = options
        self._talk = talk
        self._bot, self._model, self._policy = bot, model, policy
        self._prompt = Prompt()
        self._is_left = False

    async def run(self) -> None:
        """Talk until the person leaves; errors are shown, and the conversation stays."""
        if self._talk.goal_id is not None:
            self._show_last()
            await self._do(self._resume_interrupted())
        is_warned = False
        while not self._is_left:
            try:
                text = (await self._prompt.read(f"{self._bot}> ")).strip()
            except EOFError:
                return
            except KeyboardInterrupt:
                if is_warned:
                    return
                is_warned = True
                self._talk.display.notice("Press Ctrl-C again, or Ctrl-D, to leave.")
                continue
            is_warned = False
            if text:
                await self._do(self._command(text) if text.startswith("/") else self._say(text))

    def _show_last(self) -> None:
        """Show the last message and the last answer of a conversation that is continued."""
        messages, display = self._talk.messages, self._talk.display
        if messages:
            count = "1 message" if len(messages) == 1 else f"{len(messages)} messages. The last"
            display.notice(f"{self._talk.goal_id}: {_line(messages[0][1])}")
            display.notice(f"{count}:")
            display.notice(f"> {_line(messages[-1][1])}")
        if self._talk.answer and self._talk.is_answered:
            display.begin()
            display.end(self._talk.answer)

    async def _resume_interrupted(self) -> None:
        """Continue an answer that ended with its process, or that the model has not given."""
        if not self._talk.is_interrupted:
            return
        what = "The answer was interrupted, and is resumed."
        if not self._talk.is_answered:
            what = "This message has no answer yet. The model is asked again."
        self._talk.display.notice(what)
        await self._talk.resume()

    async def _do(self, work: Awaitable[None]) -> None:
        """Do something that a Ctrl-C stops; then ask about the calls that wait for approval."""
        loop, doing = asyncio.get_running_loop(), asyncio.ensure_future(work)
        loop.add_signal_handler(signal.SIGINT, lambda: asyncio.ensure_future(self._stop()))
        try:
            with silent_keys():
                await doing
        except PerdureError as error:
            self._talk.display.notice(f"perdure: {error.detail}")
        finally:
            loop.remove_signal_handler(signal.SIGINT)
        self._say_why_it_waits()
        with suppress(EOFError, KeyboardInterrupt):
            if self._talk.waiting_for == "person" and not self._is_left:
                await self._ask()

    async def _stop(self) -> None:
        if self._talk.goal_id is not None:
            await self._talk.port.stop(self._talk.goal_id)

    async def _say(self, text: str) -> None:
        if self._talk.goal_id is None:
            await self._talk.begin(text, bot=self._bot, model=self._model, policy=self._policy)
        else:
            await self._talk.say(text)

    def _say_why_it_waits(self) -> None:
        state = self._talk.state
        if state is None or self._talk.goal_id is None:
            return
        failure = state.conversation.failure
        if state.waiting_for == "model" and failure is not None:
            self._talk.display.notice(why_no_answer(self._options, failure, self._talk.goal_id))
        elif state.waiting_for == "limit":
            self._talk.display.notice(f"A limit is reached: perdure goal show {self._talk.goal_id}")

    async def _ask(self) -> None:
        """Ask about the first call that waits, in place."""
        waiting = self._talk.open_calls
        if not waiting:
            return
        call = waiting[0].call
        if isinstance(call, Ask):
            self._talk.display.notice(f"? {call.question}{_choice(call)}")
            answer = await self._prompt.read("answer> ")
            await self._do(self._talk.decide("answer", call.call_id, answer.strip()))
            return
        if isinstance(call, ToolCall):
            self._talk.display.notice(call_text(call))
        unknown = waiting[0].unknown
        if unknown is not None:
            self._talk.display.notice(unknown.why)
        words = _APPROVAL if unknown is None else _UNKNOWN
        question = (
            "allow? [y/n] " if unknown is None else "Did the call have its effect? skip (yes), retry (no) or abort> "
        )
        decision = words.get((await self._prompt.read(question)).strip().lower())
        if decision is None:
            self._talk.display.notice(f"Left open; perdure goal show {self._talk.goal_id} says how it is decided.")
        else:
            await self._do(self._talk.decide(decision, call.call_id))

    async def _command(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        act = self._commands.get(word)
        if act is None:
            self._talk.display.notice(f"Unknown command {lines(word)[:40]}.{_meant(word, self._commands)}")
        else:
            await act(rest.strip())

    @property
    def _commands(self) -> Mapping[str, Callable[[str], Awaitable[None]]]:
        return {
            "/help": self._help,
            "/exit": self._leave,
            "/clear": self._clear,
            "/undo": self._undo,
            "/retry": self._retry,
            "/fork": self._fork,
            "/approve": lambda _rest: self._decide("approve"),
            "/deny": lambda _rest: self._decide("deny"),
            "/model": self._change_model,
            "/remember": self._remember,
            "/cost": self._show_cost,
            "/policy": self._change_policy,
            "/compact": self._compact,
        }

    async def _help(self, _rest: str) -> None:
        self._talk.display.notice(_HELP)

    async def _leave(self, _rest: str) -> None:
        self._is_left = True

    async def _clear(self, _rest: str) -> None:
        self._talk.forget()
        self._talk.display.notice("The next message begins a new conversation.")

    async def _retry(self, _rest: str) -> None:
        text = await self._undone()
        if text is not None:
            await self._say(text)

    async def _undo(self, _rest: str) -> None:
        text = await self._undone()
        if text is not None:
            self._talk.display.notice(f"Continued before: {one_line(text)[:_TITLE]}")

    async def _undone(self) -> str | None:
        """Continue before the last message, and return its text."""
        messages = self._talk.messages
        if not messages:
            self._talk.display.notice("There is no message yet.")
            return None
        seq, text = messages[-1]
        if len(messages) == 1:
            self._talk.forget()
        else:
            await self._talk.fork(before_message=seq)
        return text

    async def _fork(self, place: str) -> None:
        if not place:
            self._list_events()
            return
        if not (place.isascii() and place.isdigit()):
            self._talk.display.notice("/fork takes the number of an event. Without one, it lists them.")
            return
        before = self._talk.goal_id
        await self._talk.fork(at=int(place))
        original = pasteable(self._options, f"perdure chat --resume {before}")
        self._talk.display.notice(f"Continued in the fork {self._talk.goal_id}, after event {place}.")
        self._talk.display.notice(f"The original is unchanged: {original}")

    def _list_events(self) -> None:
        """List the messages and answers with their events, to choose the one that a fork begins after."""
        places = self._talk.places()
        if not places:
            self._talk.display.notice("There is no message yet.")
            return
        for seq, text in places:
            self._talk.display.notice(f"{seq:>5}  {_line(text)}")
        last = pasteable(self._options, f"perdure chat --fork {self._talk.goal_id}@{places[-1][0]}")
        self._talk.display.notice(f"/fork {places[-1][0]} continues after that event, as does {last}")

    async def _decide(self, decision: str) -> None:
        waiting = [call for call in self._talk.open_calls if call.awaits_approval]
        if not waiting:
            self._talk.display.notice("No call waits for approval.")
            return
        await self._talk.decide(decision, waiting[0].call.call_id)

    async def _change_model(self, name: str) -> None:
        if name and self._talk.goal_id is not None:
            await self._talk.resume(name)
        if name:
            self._model = name
        self._talk.display.notice(f"Model: {self._talk.model or self._model or 'the default'}")

    async def _remember(self, text: str) -> None:
        if not text:
            self._talk.display.notice("/remember takes a text.")
            return
        async with records_of(self._options) as records:
            added = await records.writer.add({"type": "lesson", "title": text[:_TITLE], "body": text})
        self._talk.display.notice(f"Remembered as {added['id']}.")

    async def _change_policy(self, preset: str) -> None:
        """Show the policy, or continue with another one, in a fork: a history keeps the policy that it ran with."""
        if preset:
            read_policy(preset)
            self._policy = {"preset": preset}
            if self._talk.goal_id is not None:
                await self._talk.fork(at=self._talk.seq, policy=preset)
        where = "" if not preset or self._talk.goal_id is None else f", in the fork {self._talk.goal_id}"
        self._talk.display.notice(f"Policy: {self._policy_text()}{where}")

    def _policy_text(self) -> str:
        state = self._talk.state
        if state is None:
            return "that of the settings" if self._policy is None else str(self._policy["preset"])
        recorded = state.policy
        if recorded is None:
            return "ask"
        rules = f", {len(recorded.rules)} rules" if recorded.rules else ""
        return f"{recorded.preset}{rules}"

    async def _compact(self, _rest: str) -> None:
        state = self._talk.state
        if state is None or not can_be_summarised(state):
            self._talk.display.notice(
                "There is nothing to summarise: the first message and the last four answers stay."
            )
            return
        before = len(state.conversation.entries)
        await self._talk.resume(compacts=True)
        found = [body for _, body in state.conversation.entries[before:] if isinstance(body, TranscriptSummary)]
        if found:
            self._talk.display.notice(f"Events {found[-1].from_seq} to {found[-1].to_seq} are summarised:")
            self._talk.display.notice(found[-1].text)

    async def _show_cost(self, _rest: str) -> None:
        state = self._talk.state
        if state is None:
            self._talk.display.notice("There is no conversation yet.")
            return
        turns = [body for _, body in state.conversation.entries if isinstance(body, ModelTurn)]
        is_known = all(turn.cost_usd is not None for turn in turns)
        cost = f"${state.used.usd:.6f}" if is_known else "unknown cost"
        self._talk.display.notice(f"{state.used.tokens:,} tokens, {cost}")


def why_no_answer(options: Options, failure: ModelFailure, goal_id: str | None) -> str:
    """Say why a model has not answered; the commands that fix it, and ask again, are on lines of their own."""
    fix = [] if failure.next is None else [f"  {pasteable(options, failure.next)}"]
    again = pasteable(options, f"perdure chat --resume {goal_id}")
    return "\n".join([failure.message, *fix, "The conversation is kept. To ask again:", f"  {again}"])


def _line(text: str) -> str:
    """Return the beginning of a text, on one line."""
    return cut_to(one_line(text), _TITLE)


def _meant(word: str, commands: Mapping[str, object]) -> str:
    """Return what to type instead of an unknown command."""
    near = _LEAVING.get(word) or next(iter(get_close_matches(word, commands, n=1)), None)
    return " /help lists all." if near is None else f" Did you mean {near}? /help lists all."


def _choice(question: Ask) -> str:
    """Return the options of a question, if it has any."""
    return "" if question.options is None else f" ({', '.join(question.options)})"
