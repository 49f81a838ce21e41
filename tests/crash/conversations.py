"""A conversation with a server that is killed: the client that talks and reconnects, and what must hold at the end."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure import Perdure, Unavailable
from perdure.client import Client
from perdure.kernel.conversation.messages import Message, ModelTurn
from perdure.kernel.conversation.parts import ToolCallPart
from perdure.kernel.events import Body, ToolOutput, TranscriptSummary, decode
from perdure.testing.model_server import ModelServer, Script, ScriptedAnswer, ScriptedCall
from tests.crash import program
from tests.crash.test_server import connected, url_of
from tests.interfaces.cli.remote import until

Kill = tuple[str, int]
STREAM = "stream"
"""Instead of a fail-point: killed from outside when the client has received the nth piece of an answer."""
IN_SUMMARY = ("summary", 1)
"""The same, when a summary is requested, of which no client receives a piece."""
POLICY = {"rules": [{"tool": "remember", "verdict": "allow"}]}
SUMMARISED = ScriptedAnswer("They counted.", match="ASSISTANT: ", hold_after=1)
"""The answer to a request for a summary: its text has earlier answers in it."""


def message(number: int) -> str:
    return f"Remember number {number}."


def script(messages: int, *, with_summaries: bool = False) -> Script:
    """Return a script: to each message an answer with two calls, and one that ends it.

    A repeated request gets the same answer again. Each answer can be held in the middle, or each summary.
    """
    answers = [SUMMARISED] if with_summaries else []
    hold_after = None if with_summaries else 1
    for number in range(messages):
        lessons = ({"type": "lesson", "title": f"Number {number} {each}", "body": "Seen."} for each in ("one", "two"))
        calls = tuple(ScriptedCall("remember", lesson) for lesson in lessons)
        said = message(number)
        answers.append(ScriptedAnswer(f"I remember {number}, twice.", calls=calls, match=said, hold_after=hold_after))
        answers.append(ScriptedAnswer(f"Number {number} is remembered.", match=said, hold_after=hold_after))
    return Script(answers, order="turns")


@dataclass
class Talk:
    """One conversation, and what its client has received over all connections."""

    home: Path
    models: ModelServer
    messages: int
    goal_id: str = ""
    seqs: list[int] = field(default_factory=list)
    said: int = 0
    deaths: int = 0
    pieces: int = 0
    """The pieces of answers that the client has received in this life of the server."""
    is_done: bool = False
    turns: int = 0
    read_requests: int = 0
    records: Sequence[str] = ()

    @property
    def model(self) -> str:
        return f"openai-compatible:m@{self.models.url}"

    async def live(self, kill: Kill | None) -> None:
        """Serve the home, and talk until the conversation has ended or the server has died."""
        is_held = kill is not None and kill[0] in (STREAM, IN_SUMMARY[0])
        (self.models.hold if is_held else self.models.release)()
        server = program.start(self.home, self.home, ["serve", "--port", "0"], killed_at=None if is_held else kill)
        self.pieces = 0
        try:
            url = url_of(server)
            if url is not None:
                async with asyncio.timeout(120), asyncio.TaskGroup() as group:
                    if kill == IN_SUMMARY:
                        group.create_task(self._kill_in_summary(server))
                    group.create_task(self._talk(url, server, kill[1] if kill is not None and kill[0] == STREAM else 0))
            if not self.is_done:
                server.wait_for_end()
                self.deaths += 1
        finally:
            server.kill()
        await self.read()

    async def _talk(self, url: str, server: program.Program, killed_at_piece: int) -> None:
        try:
            async with connected(self.home, url) as client:
                await self._begin(client)
                frames = client.goals.frames(self.goal_id, after_seq=len(self.seqs), deltas=True, tries=0)
                async with aclosing(frames) as frames:
                    if await self._has_ended(client):
                        return
                    async for frame in frames:
                        if frame["type"] == "event":
                            self.seqs.append(frame["event"]["seq"])
                            if await self._has_ended(client):
                                return
                        elif frame["type"] in ("delta", "partial"):
                            self._on_piece(server, killed_at_piece)
        except Unavailable:
            return

    def _on_piece(self, server: program.Program, killed_at_piece: int) -> None:
        """Count a piece of an answer; kill the server at the nth, and let the answers before it continue."""
        self.pieces += 1
        if self.pieces == killed_at_piece:
            server.process.kill()
        elif self.pieces < killed_at_piece:
            self.models.release()

    async def _kill_in_summary(self, server: program.Program) -> None:
        begun = len(self.models.requests)
        await asyncio.to_thread(
            until, lambda: any("summarise" in str(each.body) for each in self.models.requests[begun:])
        )
        server.process.kill()

    async def _begin(self, client: Client) -> None:
        goal = await client.conversations.start(message(0), model=self.model, policy=POLICY, key="start")
        assert self.goal_id in ("", goal["id"])
        self.goal_id, self.said = goal["id"], max(self.said, 1)

    async def _has_ended(self, client: Client) -> bool:
        """Return whether all was said and answered; say the next message, or resume a goal that is on hold."""
        goal: Any = await client.goals.get(self.goal_id)
        if goal["waiting_for"] == "hold":
            await client.goals.resume(self.goal_id)
        if goal["waiting_for"] != "message":
            return False
        transcript = [entry async for entry in client.conversations.transcript(self.goal_id)]
        if (await client.goals.get(self.goal_id))["last_seq"] != goal["last_seq"]:
            return False  # a message was recorded between the two reads, and is not answered yet
        heard = sum(entry["kind"] == "message" and entry["role"] == "user" for entry in transcript)
        self.is_done = heard == self.messages and goal["last_seq"] == len(self.seqs)
        if heard == self.said < self.messages:
            self.said += 1
        if heard < self.said:
            await client.conversations.say(self.goal_id, message(self.said - 1), key=f"say-{self.said}")
        return self.is_done

    async def read(self) -> Sequence[Body]:
        """Read the history; what was recorded before was not requested since then."""
        for request in self.models.requests[self.read_requests :]:
            spoken = [each for each in request.body["messages"] if each["role"] == "assistant"]
            assert len(spoken) >= self.turns or "summar" in str(request.body).lower()
        self.read_requests = len(self.models.requests)
        if not self.goal_id:
            return ()
        async with Perdure.open(self.home) as p:
            bodies = [decode(event) for event in await p.goals.history(self.goal_id)]
            self.records = [record["title"] async for record in p.memory.iter()]
        self.turns = sum(isinstance(body, ModelTurn) for body in bodies)
        return bodies

    async def require_once_each(self) -> None:
        """Check that no message, answer, call or record was lost or doubled."""
        bodies = await self.read()
        said = [body.text for body in bodies if isinstance(body, Message) and body.role == "user"]
        assert said == [message(number) for number in range(self.messages)]
        turns = [body for body in bodies if isinstance(body, ModelTurn)]
        assert [turn.turn for turn in turns] == list(range(1, 2 * self.messages + 1))
        calls = [part.call_id for turn in turns for part in turn.parts if isinstance(part, ToolCallPart)]
        results = Counter(body.call_id for body in bodies if isinstance(body, ToolOutput) and body.ok)
        assert results == Counter(calls), "each call has one result"
        titles = [f"Number {number} {each}" for number in range(self.messages) for each in ("one", "two")]
        assert sorted(self.records) == sorted(titles)
        assert self.seqs == list(range(1, len(bodies) + 1)), "the client has received each event once"
        summaries = sum(isinstance(body, TranscriptSummary) for body in bodies)
        assert len(self.models.requests) <= len(turns) + summaries + self.deaths
