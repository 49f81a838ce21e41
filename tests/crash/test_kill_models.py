"""A bot whose process is killed twice: its calls have one result each, and no recorded answer is asked for again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure import Perdure, Unavailable
from perdure.app.goals.details import read_detail
from perdure.app.wire.resources.goals import GoalDetail
from perdure.client import Client
from perdure.kernel.conversation.messages import ModelTurn
from perdure.kernel.events import Body, ToolOutput, decode
from perdure.testing.model_server import ModelServer, Script, ScriptedAnswer, ScriptedCall
from tests.crash import program
from tests.crash.test_server import connected, served
from tests.interfaces.cli.remote import until

Kill = tuple[str, int] | None
STREAM: Kill = ("stream", 1)
"""Killed from outside while an answer arrives."""
WORDS = "Leave a note and run the program."
CALLS = (
    ScriptedCall("write_file", {"path": "note.txt", "content": "hello\n"}),
    ScriptedCall("exec", {"argv": ["sh", "-c", "echo ran >> ledger"]}),
    ScriptedCall("read_file", {"path": "note.txt"}),
)
KILLS: dict[str, tuple[Kill, Kill]] = {
    "after the answer, after a call": (("kernel.append.after", 2), ("kernel.effect.after", 1)),
    "before the answer is kept, before a call": (("kernel.append.before", 2), ("kernel.effect.before", 1)),
    "in the middle of the answer, after a result": (STREAM, ("kernel.append.after", 3)),
}


@contextmanager
def scripted(kills: Sequence[Kill]) -> Iterator[ModelServer]:
    """A server that answers twice; it holds the first answer in the middle until it is released."""
    hold = 2 if STREAM in kills else None
    answers = [ScriptedAnswer("I leave a note.", calls=CALLS, hold_after=hold), ScriptedAnswer("It ran.")]
    with ModelServer(Script(answers, order="turns")) as server:
        yield server


@dataclass
class Goal:
    """The only goal of a home, as it was read last."""

    home: Path
    folder: Path
    """Where its calls run."""
    models: ModelServer
    detail: GoalDetail | None = None
    bodies: Sequence[Body] = ()
    read_requests: int = 0

    @property
    def turns(self) -> int:
        return sum(isinstance(body, ModelTurn) for body in self.bodies)

    async def read(self) -> None:
        """Read it again; what had been recorded before was not asked for since then."""
        for request in self.models.requests[self.read_requests :]:
            roles = [message["role"] for message in request.body["messages"]]
            assert roles.count("assistant") >= self.turns
        async with Perdure.open(self.home) as p:
            for found in await p.goals.list(limit=2):
                assert self.detail is None or self.detail["id"] == found.id
                self.detail = (await read_detail(p.goals, found)).wire()
                self.bodies = [decode(event) for event in await p.goals.history(found.id)]
        self.read_requests = len(self.models.requests)

    def decision(self) -> tuple[str, str] | None:
        """What a person says now, who looks in the folder when an outcome is unknown."""
        assert self.detail is not None
        if self.detail["unknown"]:
            call_id = self.detail["unknown"][0]["call_id"]
            effect = {"t1.1": "note.txt", "t1.2": "ledger"}[call_id]
            return call_id, "skip" if (self.folder / effect).exists() else "retry"
        waiting = [call["call_id"] for call in self.detail["timeline"] if call["is_open"]]
        return (waiting[0], "approve") if self.detail["waiting_for"] == "person" else None

    def require_once_each(self) -> None:
        """Check that it is done, and that everything in it happened once."""
        assert self.detail is not None
        assert (self.detail["status"], self.detail["output"], self.detail["bot"]) == ("done", "It ran.", "ada")
        assert {call["step"] for call in self.detail["timeline"]} == {"t1.1", "t1.2", "t1.3"}
        assert [call["call_id"] for call in self.detail["timeline"] if call["is_open"]] == []
        assert self.turns == 2
        results = [body.call_id for body in self.bodies if isinstance(body, ToolOutput)]
        assert len(results) == len({*results})
        assert (self.folder / "note.txt").read_text() == "hello\n"
        assert (self.folder / "ledger").read_text() == "ran\n"


def forge(home: Path, folder: Path) -> None:
    """Make the bot, and the home with it."""
    assert program.run(home, folder, "new", 'a coding assistant called "Ada"', "--yes")[0] == 0


def killed_in_stream(models: ModelServer, kill: Kill, die: Callable[[], None]) -> None:
    """Kill a process when an answer has begun to arrive, if that is where it dies."""
    if kill == STREAM:
        until(lambda: bool(models.requests))
        die()
        models.release()


def command_for(goal: Goal) -> list[str]:
    """What a person types next."""
    if goal.detail is None:
        return ["run", "--no-input", "--bot", "ada", "--model", f"openai-compatible:m@{goal.models.url}", WORDS]
    said, goal_id = goal.decision(), goal.detail["id"]
    if said is None:
        return ["run", "--no-input", "--resume", goal_id]
    call_id, decision = said
    if decision == "approve":
        return ["goal", "approve", goal_id, call_id, "--resume"]
    return ["goal", "decide", goal_id, call_id, decision, "--resume"]


@pytest.mark.parametrize("kills", KILLS.values(), ids=KILLS)
async def test_a_bot_that_was_killed_twice_is_resumed_by_commands(tmp_path: Path, kills: tuple[Kill, Kill]) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    forge(home, folder)
    with scripted(kills) as models:
        goal, left, deaths = Goal(home, folder, models), [*kills], 0
        for _ in range(20):
            await goal.read()
            if goal.detail is not None and goal.detail["status"] == "done":
                break
            kill = left[0] if left else None
            started = program.start(home, folder, command_for(goal), killed_at=None if kill == STREAM else kill)
            killed_in_stream(models, kill, started.process.kill)
            code, _ = started.end()
            if code is not None and code < 0:
                left, deaths = left[1:], deaths + 1
    assert deaths == 2
    goal.require_once_each()


@pytest.mark.parametrize("kills", KILLS.values(), ids=KILLS)
async def test_a_bot_of_a_server_that_was_killed_twice_is_resumed(tmp_path: Path, kills: tuple[Kill, Kill]) -> None:
    home = tmp_path / "home"
    forge(home, tmp_path)
    with scripted(kills) as models:
        goal = Goal(home, tmp_path, models)
        for kill in (*kills, None):
            with served(home, None if kill == STREAM else kill) as (server, url):
                if kill == STREAM:
                    await steered(goal, url, is_followed=False)
                    killed_in_stream(models, kill, server.process.kill)
                else:
                    await steered(goal, url)
                if kill is not None:
                    server.wait_for_end()
    goal.require_once_each()


async def shown_sha256(client: Client, goal_id: str) -> str | None:
    """Return the hash of the call that a goal wants to be approved."""
    found = [each for each in await client.goals.approvals() if each["goal_id"] == goal_id]
    return found[0]["shown_sha256"] if found else None


async def steered(goal: Goal, url: str, *, is_followed: bool = True) -> None:
    """Start the goal, and decide what it asks, until it is done or the server is gone."""
    body = {"text": WORDS, "bot": "ada", "model": f"openai-compatible:m@{goal.models.url}"}
    try:
        async with connected(goal.home, url) as client:
            started = await client.goals.create(**body, key="once")
            goal.folder = goal.home / "work" / started["id"]
            while is_followed:
                await goal.read()
                assert goal.detail is not None
                if goal.detail["status"] == "done":
                    return
                said = goal.decision()
                if said is not None:
                    (call_id, decision), shown = said, await shown_sha256(client, started["id"])
                    if decision == "approve" and shown is None:
                        continue  # the server has just claimed the goal again
                    key = "-".join(said)
                    await client.goals.decide(started["id"], decision, call_id=call_id, key=key, shown_sha256=shown)
                await client.goals.get(started["id"])
    except Unavailable:
        await goal.read()
