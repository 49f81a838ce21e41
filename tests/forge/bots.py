"""A home with bots, for tests: sessions that are ready, and an assembler with a clock and ids of its own."""

import itertools
import os
import shutil
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure import DatabaseClient
from perdure.bots.skills import builtin_skills
from perdure.forge.answers import BuilderAnswer, FreeText, OptionIndex
from perdure.forge.assembly.assembly import AssemblyResult, BotAssembler
from perdure.forge.interview.interview import apply_answer, start_interview, start_reconfiguration
from perdure.forge.ports import BotStore
from perdure.forge.state import BuilderState, InterviewContext, Target
from perdure.forge.turns import AskQuestion, ReadyToAssemble
from perdure.store.builder.bots import SqlBotStore
from tests.forge.bot_store import FileBotStore

HERE = InterviewContext(
    models=("ollama:llama3.2",), skills=tuple((skill.name, skill.description) for skill in builtin_skills())
)
CODING = 'a coding assistant called "Ada" that reviews Python'
_numbers = itertools.count()


@dataclass
class Home:
    """A folder of bots, their store, and what builds them."""

    bots_dir: Path
    store: BotStore
    assembler: BotAssembler

    async def build(self, description: str = CODING, session_id: str | None = None) -> AssemblyResult:
        return await self.assembler.assemble(ready(description, session_id or new_session()))

    async def change(self, slug: str, **answers: str) -> AssemblyResult:
        return await self.assembler.assemble(await self.changing(slug, **answers))

    async def changing(self, slug: str, **answers: str) -> BuilderState:
        """Answer some questions of a reconfiguration, and keep the rest."""
        target = await self.assembler.target(slug)
        return ready_to_change(target, new_session(), **answers)

    def path(self, name: str) -> Path:
        return self.bots_dir / name

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.path(name)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))


def new_session() -> str:
    return f"session-{os.getpid()}-{next(_numbers)}"


@asynccontextmanager
async def home_at(folder: Path, url: str | None = None) -> AsyncIterator[Home]:
    """Open a home whose bots are kept in a database, or in the test's own store."""
    if url is None:
        yield home_in(folder)
        return
    async with await DatabaseClient.create(url) as client:
        yield home_in(folder, SqlBotStore(client))


async def emptied(url: str) -> str:
    """Leave no bot in a database."""
    async with await DatabaseClient.create(url) as client:
        await client.transaction(lambda tx: [tx.execute(f"DELETE FROM {name}") for name in ("bots", "builder_memory")])
    return url


def url_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> str | None:
    """Return where bots are kept: in a migrated SQLite file, in PostgreSQL, or in no database."""
    if kind.endswith("sqlite"):
        return str(shutil.copy(request.getfixturevalue("migrated_sqlite"), folder / "perdure.db"))
    return str(request.getfixturevalue("bots_url")) if kind.endswith("postgresql") else None


def home_in(folder: Path, store: BotStore | None = None) -> Home:
    bots_dir = folder / "bots"
    kept = store or FileBotStore(folder / "store.json")
    assembler = BotAssembler(bots_dir, kept, now_us=lambda: time.time_ns() // 1000, new_id=lambda: str(uuid.uuid4()))
    return Home(bots_dir, kept, assembler)


def ready(description: str = CODING, session_id: str = "s", here: InterviewContext = HERE) -> BuilderState:
    """Answer with the first option until everything is known."""
    return _answered(start_interview(session_id, description, here))


def ready_to_change(target: Target, session_id: str, **answers: str) -> BuilderState:
    return _answered(start_reconfiguration(session_id, "", HERE, target), answers)


def _answered(state: BuilderState, answers: dict[str, str] | None = None) -> BuilderState:
    while not isinstance(state.pending_turn, ReadyToAssemble):
        assert isinstance(state.pending_turn, AskQuestion)
        said = (answers or {}).get(state.pending_slot or "")
        if state.pending_slot == "changes":
            said = ", ".join(
                {"variety": "settings", "length": "settings"}.get(slot, slot)
                for slot in answers or {}
                if slot != "wish" and "." not in slot
            )
        is_last = state.pending_slot == "changes" and not said
        index = len(state.pending_turn.options) - 1 if is_last else 0
        answer: BuilderAnswer = FreeText(free_text=said) if said else OptionIndex(option_index=index)
        state = apply_answer(state, answer)
    return state
