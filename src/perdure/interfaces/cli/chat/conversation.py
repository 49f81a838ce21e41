"""One conversation in a terminal: what has come of it, what it waits for, and what is said next."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from perdure.app.goals.values import (
    Ask,
    CallState,
    Event,
    GoalState,
    Message,
    ModelTurn,
    ToolCall,
    ToolOutput,
    apply,
    decode,
    fold,
    text_of,
)
from perdure.app.wire.shown import shown_sha256
from perdure.errors import Conflict
from perdure.interfaces.cli.chat.display import Display, call_line
from perdure.interfaces.cli.remote.ports.chat import ChatGoals, ChatPort
from perdure.interfaces.cli.remote.received_goals import read_event

if TYPE_CHECKING:
    from perdure.app.wire.resources import frames as wire

_LOOK_S = 0.25
"""How long nothing has to come before it is checked whether the conversation waits."""
_SHOWN_AFTER_S = 1.0
_TRIES_AFTER_S = 4.0
_MOST_LOOKS = 20
"""After this many looks without an event, a conversation that waits is not about to continue."""


class Conversation:
    """A conversation that is shown while it is answered."""

    def __init__(
        self,
        port: ChatPort,
        goals: ChatGoals,
        display: Display,
        on_frame: "Callable[[wire.GoalFrame], None] | None" = None,
    ) -> None:
        """`on_frame` is called with each frame that is followed; those that `open` reads are not reported."""
        self.port = port
        self.goals = goals
        self.display = display
        self.goal_id: str | None = None
        self.state: GoalState | None = None
        self.answer = ""
        """The text of the last answer."""
        self._parts: dict[tuple[int, int], str] = {}
        self._turn_seq = 0
        """The event of the last answer."""
        self._is_shown = True
        self._on_frame = on_frame

    @property
    def bot(self) -> str | None:
        """The bot of the conversation; None before the first message."""
        return None if self.state is None else self.state.begun.bot or "assistant"

    @property
    def seq(self) -> int:
        """The last event that was seen."""
        return 0 if self.state is None else self.state.head.seq

    @property
    def waiting_for(self) -> str | None:
        """What the conversation waits for, as far as was seen."""
        return None if self.state is None else self.state.waiting_for

    @property
    def messages(self) -> list[tuple[int, str]]:
        """The messages of the person, each with its event."""
        said = () if self.state is None else self.state.conversation.entries
        return [(seq, body.text) for seq, body in said if isinstance(body, Message) and body.role == "user"]

    @property
    def is_answered(self) -> bool:
        """Whether an answer, or a part of one, followed the last message of the person."""
        messages = self.messages
        return not messages or self._turn_seq > messages[-1][0]

    @property
    def is_interrupted(self) -> bool:
        """Whether the run has ended, or the model has failed, before the goal waited for the person again."""
        return self.state is not None and (self.state.status == "open" or self.waiting_for == "model")

    @property
    def model(self) -> str | None:
        """The model of the next answer, as far as was seen."""
        if self.state is None:
            return None
        said = self.state.conversation
        prompted = None if said.prompt is None else said.prompt.model
        return said.chosen or prompted or self.state.begun.mind.model

    def places(self) -> list[tuple[int, str]]:
        """Return the messages and answers, each with the number of its event."""
        said = () if self.state is None else self.state.conversation.entries
        answers = [(seq, text_of(body)) for seq, body in said if isinstance(body, ModelTurn)]
        return sorted([*((seq, f"> {text}") for seq, text in self.messages), *answers])

    @property
    def open_calls(self) -> list[CallState]:
        """The calls that wait for a person."""
        calls = () if self.state is None else self.state.open_calls.values()
        return [
            call for call in calls if call.awaits_approval or call.unknown is not None or isinstance(call.call, Ask)
        ]

    async def begin(self, text: str, *, bot: str, model: str | None, policy: Mapping[str, Any] | None) -> None:
        """Begin a conversation, and show the answer.

        Raises: what ChatPort.start raises.
        """
        self.forget()
        self.goal_id = await self.port.start(text, bot=bot, model=model, policy=policy)
        await self.follow()

    async def say(self, text: str) -> None:
        """Say something, and show the answer."""
        await self.port.say(self._id(), text)
        await self.follow()

    async def resume(self, model: str | None = None, *, compacts: bool = False) -> None:
        """Continue where the conversation stands, and show what comes."""
        await self.port.resume(self._id(), model, compacts=compacts)
        await self.follow()

    async def decide(self, decision: str, call_id: str, value: Any = None) -> None:
        """Decide about a call, and show what follows."""
        shown = None if self.state is None else shown_sha256(self.state, call_id)
        await self.port.decide(self._id(), decision, call_id, value, shown_sha256=shown)
        await self.follow()

    async def fork(
        self, *, at: int | None = None, before_message: int | None = None, policy: str | None = None
    ) -> None:
        """Continue in a fork of the conversation."""
        await self.open(await self.port.fork(self._id(), at=at, before_message=before_message, policy=policy))

    async def open(self, goal_id: str) -> None:
        """Read a conversation up to its last event, without showing it."""
        self.forget()
        goal = await self.goals.find(goal_id)
        self.goal_id, self._is_shown = goal.id, False
        try:
            async with aclosing(self.port.frames(goal.id, 0)) as frames:
                while self.seq < goal.summary.last_seq:
                    self._take(await anext(frames))
        finally:
            self._is_shown = True

    async def follow(self) -> None:
        """Show what comes until the conversation waits for the person, or has ended."""
        began, looks, silent_s = self.seq, 0, 0.0
        async with aclosing(self.port.frames(self._id(), began)) as frames:
            coming = _next(frames)
            try:
                while not (self._turn_seq > began and self.waiting_for == "message"):
                    done, _ = await asyncio.wait({coming}, timeout=_LOOK_S)
                    frame = coming.result() if done else None
                    if done and frame is None:
                        return
                    if frame is not None:
                        self._report(frame)
                        self._take(frame)
                        coming = _next(frames)
                    looks += not done
                    silent_s = 0.0 if done else silent_s + _LOOK_S
                    self._show_waiting(silent_s)
                    has_moved = self.seq > began or looks >= _MOST_LOOKS
                    if not done and has_moved and await self._is_at_rest():
                        return
            finally:
                self.display.reset()
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)

    def _show_waiting(self, silent_s: float) -> None:
        """Show that the model is asked and has sent nothing yet."""
        is_asked = not self._parts and self.waiting_for is None and not (self.state and self.state.open_calls)
        if silent_s < _SHOWN_AFTER_S or not is_asked:
            return
        tries = "" if silent_s < _TRIES_AFTER_S else " A connection that fails is tried 4 times."
        self.display.waiting(f"Waiting for {self.model or 'the model'}, {silent_s:.0f} s.{tries} Ctrl-C stops it.")

    def forget(self) -> None:
        """Forget the conversation: the next message begins another one."""
        self.goal_id = self.state = None
        self.answer, self._parts, self._turn_seq = "", {}, 0

    def _id(self) -> str:
        """Raises: Conflict before the first message."""
        if self.goal_id is None:
            raise Conflict("There is no conversation yet. Say something first.")
        return self.goal_id

    def _report(self, frame: "wire.GoalFrame") -> None:
        if self._on_frame is not None:
            self._on_frame(frame)

    async def _is_at_rest(self) -> bool:
        goal = await self.goals.find(self._id())
        is_seen = goal.summary.last_seq <= self.seq
        return is_seen and (goal.is_final or goal.status == "waiting")

    def _take(self, frame: "wire.GoalFrame") -> None:
        match frame["type"]:
            case "event":
                self._take_event(read_event(frame["event"]))
            case "partial" | "delta":
                self._take_piece(cast("Mapping[str, Any]", frame))
            case "delta_reset":
                self._parts = {place: text for place, text in self._parts.items() if place[0] != frame["turn"]}
                self.display.reset()
            case _:
                pass

    def _take_piece(self, frame: Mapping[str, Any]) -> None:
        if frame["kind"] != "text":
            return
        turn, place = frame["turn"], (frame["turn"], frame["part"])
        if not any(each[0] == turn for each in self._parts):
            self._parts.clear()
            self.display.begin()
        before = self._parts.get(place, "") if frame["type"] == "delta" else ""
        self._parts[place] = before + frame["text"]
        self.display.text("".join(text for _, text in sorted(self._parts.items())))

    def _take_event(self, event: Event) -> None:
        if self.state is None:
            self.state = fold([event])
        else:
            apply(self.state, event)
        body = decode(event)
        if isinstance(body, ModelTurn):
            self.answer, self._turn_seq = text_of(body), event.seq
            self._parts.clear()
        if self._is_shown:
            self._show(body)

    def _show(self, body: object) -> None:
        match body:
            case ModelTurn():
                self.display.end(self.answer)
                if body.finish_reason == "interrupted":
                    self.display.notice("(stopped)")
            case ToolOutput():
                self._show_outcome(body)
            case _:
                pass

    def _show_outcome(self, outcome: ToolOutput) -> None:
        found = None if self.state is None else self.state.calls.get(outcome.call_id)
        if found is not None and isinstance(found.call, ToolCall):
            mark = "✓" if outcome.ok else "✗"
            self.display.call(call_line(found.call.tool, found.call.arguments, mark))


def _next(frames: "AsyncGenerator[wire.GoalFrame, None]") -> "asyncio.Task[wire.GoalFrame | None]":
    """Wait for the next frame in a task; None when none follows, because the goal has ended."""

    async def one() -> "wire.GoalFrame | None":
        return await anext(frames, None)

    return asyncio.create_task(one())
