"""SIGKILL after every acknowledged turn of an interview: the same question with the same options, and all answers."""

import asyncio
import random
import secrets
import signal
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from perdure import DatabaseClient, Invalid
from perdure.bots.skills import builtin_skills
from perdure.forge.answers import read_answer
from perdure.forge.interview.finish import shown_turn
from perdure.forge.interview.interview import apply_answer, start_interview
from perdure.forge.state import BuilderState, InterviewContext
from perdure.forge.turns import AskQuestion, Clarify, ReadyToAssemble
from tests import children
from tests.crash.forge import MOMENTS, take_turn
from tests.crash.goals import rest_of
from tests.crash.size import torture_size
from tests.forge.test_interview import DESCRIPTIONS

HERE = InterviewContext(skills=tuple((skill.name, skill.description) for skill in builtin_skills()))


@dataclass
class Oracle:
    """What has to be in the database, worked out without one."""

    home: Path
    url: str
    seed: int = field(default_factory=lambda: secrets.randbits(32))
    session_id: str = ""
    state: BuilderState | None = None
    revision: int = 0
    killed: int = 0
    turns: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def kill_one(self) -> None:
        """Let a child take one turn and die; look at what it found, and work out what is there now."""
        said = self.next_said()
        moment = self.chance.choice(MOMENTS)
        ours, theirs = children.context().Pipe(duplex=False)
        child = children.start(take_turn, self.home, self.url, self.session_id, said, moment, theirs)
        theirs.close()
        told = list(rest_of(ours))
        assert children.end_of(child) == -signal.SIGKILL, f"seed {self.seed}"
        self.killed += 1
        if said[0] == "answer":
            self.check_found(told.pop(0))
        assert len(told) == (moment == "acknowledged"), f"seed {self.seed}"
        if moment != "store.commit.before":
            self.state = self.after(said)
            self.revision += 1
        for view in told:
            assert self.state is not None
            assert view["turn"] == turn_of(self.state), f"seed {self.seed}"
            assert view["revision"] == self.revision, f"seed {self.seed}"
            self.turns += 1

    def next_said(self) -> tuple[str, Any]:
        """Choose what to say: something that fits, or a step back; at the end, begin another session now and then."""
        if self.state is None or (isinstance(self.state.pending_turn, ReadyToAssemble) and self.chance.random() < 0.5):
            self.session_id, self.state, self.revision = str(uuid.UUID(int=self.chance.getrandbits(128))), None, 0
            return "start", self.chance.choice(DESCRIPTIONS)
        for answer in self.chance.sample(self.answers(self.state), k=len(self.answers(self.state))):
            try:
                after = apply_answer(self.state, read_answer(answer))
            except Invalid:
                continue
            if after != self.state:
                return "answer", answer
        raise AssertionError(f"nothing can be said; seed {self.seed}")

    @staticmethod
    def answers(state: BuilderState) -> list[Any]:
        match state.pending_turn:
            case AskQuestion(options=options):
                return [*({"option_index": at} for at in range(len(options))), {"free_text": "Ada"}, "back"]
            case Clarify():
                return [{"free_text": "papers about bees, for my team"}]
            case _:
                return [{"confirm": True}, {"confirm": True}, {"confirm": False}, {"back": "personality"}]

    def after(self, said: tuple[str, Any]) -> BuilderState:
        kind, value = said
        if kind == "start":
            return start_interview(self.session_id, value, HERE)
        assert self.state is not None
        return apply_answer(self.state, read_answer(value))

    def check_found(self, found: tuple[dict[str, Any], str, int]) -> None:
        shown, text, revision = found
        assert self.state is not None
        assert revision == shown["revision"] == self.revision, f"seed {self.seed}"
        assert shown["turn"] == turn_of(self.state), f"seed {self.seed}"
        assert text == self.state.text(), f"seed {self.seed}"


def turn_of(state: BuilderState) -> Any:
    return shown_turn(state).model_dump(mode="json", by_alias=True)


@pytest.mark.torture
def test_no_turn_of_an_interview_is_lost_by_kills(database_url: str, tmp_path: Path) -> None:
    """40 kills for each of the two databases; `make torture` has more."""
    oracle = Oracle(tmp_path / "home", database_url)
    asyncio.run(made(database_url))
    rounds = torture_size(small=40)
    while oracle.killed < rounds:
        oracle.kill_one()
    assert oracle.turns > rounds / 4, f"seed {oracle.seed}"


async def made(url: str) -> None:
    await (await DatabaseClient.create(url)).close()
