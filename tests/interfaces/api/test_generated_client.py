"""A client that a generator makes from the OpenAPI document is complete, typed and works against a real server."""

import asyncio
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perdure.app.access.token import read_token
from tests.interfaces.api.document import document, operations
from tests.interfaces.api.serving import Served
from tests.interfaces.api.talks import CODING

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "serve-over-http.md"
PACKAGE = "perdure_client"


@dataclass(frozen=True)
class Generated:
    """The package that was generated, and what its generator printed."""

    folder: Path
    printed: str

    @property
    def models(self) -> Any:
        return importlib.import_module(f"{PACKAGE}.models")

    def call(self, name: str) -> ModuleType:
        """Return the module of an operation: `goals.start_goal`."""
        return importlib.import_module(f"{PACKAGE}.api.{name}")


@dataclass(frozen=True)
class Speaker:
    """The generated client, connected to a server."""

    generated: Generated
    client: Any

    @property
    def models(self) -> Any:
        return self.generated.models

    async def ask(self, name: str, *path: str, **more: Any) -> Any:
        return await self.generated.call(name).asyncio(*path, client=self.client, **more)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generated]:
    """Generate once, with the command of the guide; `post_hooks` would only format the code."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(document()))
    (folder / "config.yml").write_text("post_hooks: []\n")
    _, *options = shlex.split(re.findall(r"^openapi-python-client .*", HOW_TO.read_text(), re.MULTILINE)[0])
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *options, "--config", "config.yml", "--fail-on-warning"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield Generated(folder / PACKAGE, done.stdout + done.stderr)
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture
async def speaker(generated: Generated, plain: Served) -> AsyncIterator[Speaker]:
    client = importlib.import_module(PACKAGE).AuthenticatedClient(
        base_url=plain.server.url,
        token=read_token(plain.p.settings.home),
        httpx_args={"trust_env": False},
        raise_on_unexpected_status=True,
    )
    async with client:
        yield Speaker(generated, client)


def test_the_generator_skips_nothing_of_the_document(generated: Generated) -> None:
    assert generated.printed == f"Generating {generated.folder}\n"
    calls = {path.stem for path in (generated.folder / "api").glob("*/*.py") if path.stem != "__init__"}
    assert calls == set(operations())


async def test_the_program_of_the_guide_works(generated: Generated, plain: Served) -> None:
    (program,) = re.findall(rf"```python\n([^`]*{PACKAGE}[^`]*)```", HOW_TO.read_text())
    token = read_token(plain.p.settings.home)
    environment = {**os.environ, "PERDURE_URL": plain.server.url, "PERDURE_TOKEN": token, "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-c", program]
    done = await asyncio.to_thread(
        subprocess.run,
        command,
        env=environment,
        cwd=generated.folder.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("echo hello\n", "")


async def test_a_goal_is_started_listed_and_followed_page_by_page(speaker: Speaker, plain: Served) -> None:
    models = speaker.models
    body = models.GoalBody(command="echo hello", limits=models.LimitsBody(seconds=60.0))
    started = await speaker.ask("goals.start_goal", body=body, idempotency_key="generated")
    goal_id = started.data.id
    async for _ in plain.client.goals.follow(goal_id):
        pass
    listed = await speaker.ask("goals.list_goals", limit=1)
    assert [(goal.id, goal.mind) for goal in listed.data] == [(goal_id, models.GoalMind.COMMAND)]
    events: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = await speaker.ask("goals.list_events", goal_id, limit=1, **cursor)
        events += page.data
        if page.meta.next_cursor is None:
            break
        cursor = {"cursor": page.meta.next_cursor}
    begun, call, output, end = events
    assert isinstance(begun, models.GoalEvent)
    assert (begun.payload.mind.kind, begun.payload.limits.seconds) == (models.MindSpecKind.COMMAND, 60.0)
    assert isinstance(call.payload, models.ToolCallAction)
    assert output.payload.call_id == call.payload.call_id
    assert "ok" not in output.payload.to_dict(), "events leave out defaults"
    assert end.payload.reason is models.TerminationReason.DONE


async def test_a_body_that_is_optional_can_be_left_out(speaker: Speaker) -> None:
    models = speaker.models
    started = await speaker.ask("goals.start_goal", body=models.GoalBody(command="sleep 600"))
    cancelled = await speaker.ask("goals.cancel_goal", started.data.id)
    assert isinstance(cancelled, models.GoalResponse)
    assert cancelled.data.id == started.data.id


async def test_a_session_is_answered_turn_by_turn_until_its_bot_is_built(speaker: Speaker) -> None:
    models = speaker.models
    begun = await speaker.ask("builder.start_session", body=models.SessionBody(description=CODING))
    session_id, turn = begun.data.session_id, begun.data.turn
    seen = set()
    while not isinstance(turn, models.ReadyToAssemble):
        seen.add(type(turn))
        answer = models.OptionIndex(option_index=0)
        turn = (await speaker.ask("builder.answer_turn", session_id, body=models.AnswerBody(answer=answer))).data.turn
    assert seen == {models.AskQuestion}
    assert turn.preview.name == turn.config.name
    shown = await speaker.ask("builder.get_session", session_id)
    assert (shown.data.phase, shown.data.turn) == (models.BuilderPhase.REVIEW, turn)
    config = turn.config
    config.name = "Bob"
    built = await speaker.ask("builder.assemble_bot", session_id, body=models.AssembleBody(config=config))
    bot = (await speaker.ask("bots.get_bot", built.data.result.bot_slug)).data
    assert (bot.name, bot.model_config.model, bot.version) == ("Bob", config.model_config.model, 1)
    [version] = (await speaker.ask("bots.list_bot_versions", bot.slug)).data
    assert version.origin is models.BotVersionOrigin.ASSEMBLE


async def test_a_record_is_added_with_keys_of_its_own_and_found(speaker: Speaker) -> None:
    models = speaker.models
    record = models.RecordBody(type_="lesson", title="The cart caches prices", paths=["src/cart.py"])
    record["team"] = "shop"
    added = (await speaker.ask("memory.add_record", body=record)).data
    again = (await speaker.ask("memory.add_record", body=record)).data
    assert (again.added, again.existing_id) == (False, added.id)
    [match] = (await speaker.ask("memory.find_related_records", path=["src/cart.py"])).data
    assert (match.record.id, match.why[0].kind) == (added.id, models.MatchReasonKind.PATH)
    found = (await speaker.ask("memory.get_record", added.id)).data
    assert (found.title, found["team"]) == ("The cart caches prices", "shop")


async def test_a_failure_is_a_typed_problem(speaker: Speaker) -> None:
    models = speaker.models
    missing = await speaker.ask("goals.get_goal", "nowhere")
    assert isinstance(missing, models.Problem)
    assert (missing.status, missing.code) == (404, "not_found")
    begun = await speaker.ask("builder.start_session", body=models.SessionBody(description=CODING))
    answer = models.AnswerBody(answer=models.Confirm(confirm=True))
    stale = await speaker.ask("builder.answer_turn", begun.data.session_id, body=answer, if_match='"7"')
    assert (stale.status, stale.current.revision, stale.current.turn) == (412, 1, begun.data.turn)
