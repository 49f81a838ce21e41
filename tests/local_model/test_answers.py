"""SmolLM2 with 135 million parameters, in this process: plain answers and answers of a form."""

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from perdure.interfaces.cli.errors import run
from perdure.minds.model.ports import ModelFailed, ModelRequest, ModelSettings, TextPart, UserText
from perdure.minds.model.providers.client import ProviderClient
from tests.local_model.conftest import FILE, NAME
from tests.minds.model.providers.conftest import Watched

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "mood": {"type": "string", "enum": ["good", "bad"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["name", "mood", "age"],
    "additionalProperties": False,
}


async def test_a_plain_answer_is_text(client: ProviderClient) -> None:
    watched = Watched()
    request = ModelRequest(NAME, "You are brief.", [UserText("Say hello.")], settings=ModelSettings(max_tokens=40))
    answer = await client.answer(request, watched)
    (part,) = answer.parts
    assert isinstance(part, TextPart)
    assert part.text == watched.text(0) != ""
    assert answer.finish_reason in ("stop", "length")
    assert (answer.model, answer.provider, answer.cost_usd) == (NAME, "gguf", 0.0)
    assert answer.usage.input > 0 < answer.usage.output
    assert not answer.usage.estimated


async def test_an_answer_of_a_form_has_it(client: ProviderClient) -> None:
    settings = ModelSettings(temperature=0.0, max_tokens=200)
    request = ModelRequest(NAME, "", [UserText("Describe a person.")], settings=settings, output_schema=PERSON)
    answer = await client.answer(request, Watched())
    (part,) = answer.parts
    assert isinstance(part, TextPart)
    person = json.loads(part.text)
    assert set(person) == {"name", "mood", "age"}
    assert person["mood"] in ("good", "bad")
    assert isinstance(person["age"], int)


async def test_a_request_that_is_cancelled_frees_the_model_for_the_next(client: ProviderClient) -> None:
    watched, begun = Watched(), asyncio.Event()
    watched.on_first = begun.set
    long = ModelRequest(NAME, "", [UserText("Count to a thousand.")], settings=ModelSettings(max_tokens=1500))
    answering = asyncio.create_task(client.answer(long, watched))
    await begun.wait()
    answering.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await answering
    short = ModelRequest(NAME, "", [UserText("Say hello.")], settings=ModelSettings(max_tokens=5))
    assert (await client.answer(short, Watched())).parts


async def test_a_file_that_is_no_model_is_refused(client: ProviderClient, tmp_path: Path) -> None:
    junk = tmp_path / "junk.gguf"
    junk.write_text("not a model")
    for path, said in ((junk, "it must be a model in the GGUF format"), (tmp_path / "none.gguf", "there is no file")):
        with pytest.raises(ModelFailed, match=said) as failed:
            await client.answer(ModelRequest(f"gguf:{path}", "", [UserText("Hi")]), Watched())
        assert (failed.value.failure_code, failed.value.attempts) == ("rejected", 1)


def test_the_command_line_tries_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "test", f"gguf:{FILE}"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"gguf:{FILE} answered ")
    assert said.err == ""
