"""Interviews through a store: whatever is said, taken back, interrupted and resumed, a clean replay gets there too."""

import asyncio
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import DatabaseClient, Invalid, failpoints
from perdure.app.builder.forge import open_forge
from perdure.forge.answers import BuilderAnswer, write_answer
from perdure.forge.drafts import decode_draft
from perdure.forge.interview.interview import apply_answer
from perdure.forge.state import BuilderState
from perdure.store.builder.drafts import SqlBuilderDraftStore
from tests.conftest import BACKENDS
from tests.forge.test_interview import ANSWERS, DESCRIPTIONS, replayed

Moment = Literal["", "store.commit.before", "store.commit.after"]
SAID = st.tuples(ANSWERS, st.sampled_from(["", "", "", "store.commit.before", "store.commit.after"]))


class Died(BaseException):
    """What a process feels when it is killed: nothing of ours may catch it."""


def die() -> None:
    raise Died


class Sessions:
    """One open database, and the loop that it lives on."""

    def __init__(self, runner: asyncio.Runner, client: DatabaseClient) -> None:
        self._runner = runner
        self._client = client

    def interview(
        self, description: str, said: list[tuple[BuilderAnswer, Moment]]
    ) -> tuple[BuilderState, BuilderState]:
        """Say things, dying where it is said; return the state that is kept, and the one that should be."""
        return self._runner.run(self._interview(description, said))

    async def _interview(
        self, description: str, said: list[tuple[BuilderAnswer, Moment]]
    ) -> tuple[BuilderState, BuilderState]:
        session = (await open_forge(self._client, Path("/nowhere")).start(description)).session_id
        state = await self._kept(session)
        for answer, moment in said:
            try:
                after = apply_answer(state, answer)
            except Invalid:
                after = state
            with ExitStack() as stack:
                if moment:
                    stack.enter_context(failpoints.armed(moment, die))
                try:  # by a new one each time: nothing lives on in memory
                    await open_forge(self._client, Path("/nowhere")).answer(session, write_answer(answer))
                except Died:
                    after = state if moment == "store.commit.before" else after
                except Invalid:
                    assert after == state
            state = after
            assert (await open_forge(self._client, Path("/nowhere")).get(session)).turn == state.pending_turn
        return await self._kept(session), state

    async def _kept(self, session_id: str) -> BuilderState:
        return decode_draft(await SqlBuilderDraftStore(self._client).load_draft(session_id))


@pytest.fixture(scope="module", params=BACKENDS)
def sessions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    if request.param == "sqlite":
        folder = tmp_path_factory.mktemp("sessions")
        url = str(shutil.copy(request.getfixturevalue("migrated_sqlite"), folder / "perdure.db"))
    else:
        url = request.getfixturevalue("postgres").new_database(f"sessions_{secrets.token_hex(6)}")
    with asyncio.Runner() as runner:
        client = runner.run(DatabaseClient.create(url))
        yield Sessions(runner, client)
        runner.run(client.close())


@settings(max_examples=30, deadline=None)
@given(description=st.sampled_from(DESCRIPTIONS), said=st.lists(SAID, max_size=25))
def test_any_way_through_a_store_reaches_only_what_a_clean_replay_reaches(
    sessions: Sessions, description: str, said: list[tuple[BuilderAnswer, Moment]]
) -> None:
    kept, expected = sessions.interview(description, said)
    assert kept == expected
    assert replayed(kept) == kept
