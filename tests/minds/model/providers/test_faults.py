"""Faults of providers: retried, waited for, given to a fallback, or a failure that says what to do."""

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from perdure.errors import Denied
from perdure.minds.model.ports import DeltaReset, ModelAnswer, ModelFailed, ModelRequest, TextPart, UserText
from perdure.minds.model.providers.client import ProviderClient
from perdure.model_settings import ModelDefaults
from perdure.testing.model_server import ModelServer, ScriptedAnswer
from tests.minds.model.providers.clocks import QuickClock
from tests.minds.model.providers.conftest import StoredSecrets, Watched, hello

HI = ScriptedAnswer("Good morning, Ada.")


def text_of(answer: ModelAnswer) -> str:
    return "".join(part.text for part in answer.parts if isinstance(part, TextPart))


async def failure(client: ProviderClient, request: ModelRequest, watched: Watched) -> ModelFailed:
    with pytest.raises(ModelFailed) as failed:
        await client.answer(request, watched)
    return failed.value


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
async def test_a_status_that_may_pass_is_tried_again(
    server: ModelServer, client: ProviderClient, clock: QuickClock, watched: Watched, model: str, status: int
) -> None:
    server.script.add(ScriptedAnswer(status=status), ScriptedAnswer(status=status), HI)
    answer = await client.answer(hello(model), watched)
    assert (text_of(answer), answer.attempts) == ("Good morning, Ada.", 3)
    assert clock.pauses == [1.0, 4.0]
    assert not any(isinstance(delta, DeltaReset) for delta in watched.deltas)


@pytest.mark.parametrize(
    "fault",
    [
        {"cut_after": 1},
        {"end_after": 1},
        {"error_after": 1},
        {"error_after": 1, "error_type": "rate_limit_error"},
    ],
    ids=["cut", "ended", "overloaded", "limited"],
)
async def test_a_stream_that_breaks_is_sent_again_from_the_start(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str, fault: dict[str, Any]
) -> None:
    server.script.add(ScriptedAnswer("Good evening", **fault), HI)
    answer = await client.answer(hello(model), watched)
    assert (text_of(answer), answer.attempts) == ("Good morning, Ada.", 2)
    assert [type(delta) for delta in watched.deltas].count(DeltaReset) == 1
    assert watched.text(0) == "Good morning, Ada."


NO_ANSWERS: dict[str, dict[str, Any]] = {
    "cut": {"cut_after": 0},
    "short": {"raw_bytes": b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\nhalf"},
    "bytes": {"raw_bytes": b"\x00\x01\x02 nonsense\r\n\r\n"},
    "json": {"raw": "data: {not json\n\n"},
    "types": {"raw": "data: 3\n\ndata: []\n\ndata: null\n\n"},
    "comment": {"raw": ": nothing at all\n\n"},
    "nothing": {"raw": ""},
}


@pytest.mark.parametrize("fault", NO_ANSWERS)
async def test_what_is_no_answer_is_tried_again_and_then_a_failure(
    server: ModelServer, client: ProviderClient, clock: QuickClock, watched: Watched, model: str, fault: str
) -> None:
    server.script.add(*[ScriptedAnswer(**NO_ANSWERS[fault])] * 4, HI)
    failed = await failure(client, hello(model), watched)
    assert (failed.failure_code, failed.attempts, failed.model) == ("unreachable", 4, model)
    assert failed.message.startswith(model)
    assert "\n" not in failed.message
    is_stopped_ollama = model.startswith("ollama:") and " cannot be reached at " in failed.message
    assert failed.next == ("ollama serve" if is_stopped_ollama else f"perdure model test {model}")
    assert clock.pauses == [1.0, 4.0, 15.0]
    assert len(server.requests) == 4


LASTING = {401: ("auth", "login"), 403: ("auth", "login"), 404: ("rejected", "list"), 422: ("rejected", "test")}


@pytest.mark.parametrize("status", LASTING)
async def test_a_status_that_does_not_pass_is_a_failure_at_once(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str, status: int
) -> None:
    code, command = LASTING[status]
    server.script.add(ScriptedAnswer(status=status, message="That is not possible."), HI)
    failed = await failure(client, hello(model), watched)
    assert (failed.failure_code, failed.attempts, len(server.requests)) == (code, 1, 1)
    assert failed.message == f"{model} answered with status {status}: That is not possible."
    assert failed.next is not None
    assert failed.next.startswith(f"perdure model {command}")
    assert failed.exit_code == 8


async def test_the_wish_of_the_provider_is_waited_for(
    server: ModelServer, client: ProviderClient, clock: QuickClock, watched: Watched, model: str
) -> None:
    server.script.add(ScriptedAnswer(status=429, retry_after="37"), HI)
    assert (await client.answer(hello(model), watched)).attempts == 2
    assert clock.pauses == [37.125]


async def test_a_wish_of_more_than_a_minute_is_a_failure_with_its_moment(
    server: ModelServer, client: ProviderClient, clock: QuickClock, watched: Watched, model: str
) -> None:
    server.script.add(ScriptedAnswer(status=429, retry_after="3600"), HI)
    failed = await failure(client, hello(model), watched)
    assert (failed.failure_code, failed.attempts, clock.pauses) == ("rate_limited", 1, [])
    assert failed.retry_at_us == clock.now_us() + 3_600_000_000


async def test_a_quota_that_is_used_up_is_not_waited_for(
    server: ModelServer, client: ProviderClient, watched: Watched
) -> None:
    body = '{"error": {"message": "You have no credit.", "type": "insufficient_quota", "code": "insufficient_quota"}}'
    head = f"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    server.script.add(ScriptedAnswer(raw_bytes=(head + body).encode()))
    failed = await failure(client, hello("openai:m"), watched)
    assert (failed.failure_code, failed.message) == ("rejected", "openai:m: You have no credit.")
    assert len(server.requests) == 1


async def test_a_server_that_is_not_there_is_unreachable(
    client: ProviderClient, clock: QuickClock, watched: Watched
) -> None:
    failed = await failure(client, hello("openai-compatible:m@http://127.0.0.1:1/v1"), watched)
    assert (failed.failure_code, failed.attempts) == ("unreachable", 4)
    assert failed.provider == "openai-compatible@http://127.0.0.1:1/v1"
    assert clock.pauses == [1.0, 4.0, 15.0]


async def test_a_server_of_ollama_that_does_not_run_is_unreachable_with_the_command_that_starts_it(
    clock: QuickClock, watched: Watched
) -> None:
    client = ProviderClient(ModelDefaults(), StoredSecrets(), clock, {"OLLAMA_HOST": "127.0.0.1:1"})
    failed = await failure(client, hello("ollama:llama3.2"), watched)
    assert (failed.failure_code, failed.next) == ("unreachable", "ollama serve")
    await client.close()


async def until_requested(server: ModelServer, count: int) -> None:
    while len(server.requests) < count:  # noqa: ASYNC110 (the server is a thread that has no event of this loop)
        await asyncio.sleep(0.005)


async def test_a_first_event_that_does_not_come_is_a_timeout_and_tried_again(
    server: ModelServer, client: ProviderClient, clock: QuickClock, watched: Watched, model: str
) -> None:
    server.script.add(ScriptedAnswer("Late", hold_after=0), HI)
    answering = asyncio.create_task(client.answer(hello(model), watched))
    await until_requested(server, 1)
    clock.advance(59.0)
    clock.advance(1.0)
    answer = await answering
    assert (text_of(answer), answer.attempts) == ("Good morning, Ada.", 2)
    assert sorted(clock.deadlines) == [60.0, 60.0, 539.0, 600.0]


async def test_a_stream_that_never_ends_ends_with_the_deadline(
    server: ModelServer, client: ProviderClient, clock: QuickClock, watched: Watched, model: str
) -> None:
    server.script.add(ScriptedAnswer("Good evening", hold_after=1))
    begun = asyncio.Event()
    watched.on_first = begun.set
    answering = asyncio.create_task(client.answer(hello(model), watched))
    await begun.wait()
    clock.advance(600.0)
    with pytest.raises(ModelFailed) as failed:
        await answering
    assert (failed.value.failure_code, failed.value.attempts) == ("timeout", 1)
    assert failed.value.message == f"{model} sent no whole answer within 600 s"
    assert isinstance(watched.deltas[-1], DeltaReset)
    server.settle()
    assert [each.outcome for each in server.requests] == ["hung_up"]


async def test_cancelling_closes_the_stream_at_once(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    server.script.add(ScriptedAnswer("Good evening", hold_after=1))
    begun = asyncio.Event()
    watched.on_first = begun.set
    answering = asyncio.create_task(client.answer(hello(model), watched))
    await begun.wait()
    answering.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await answering
    assert answering.cancelled()
    server.settle()
    assert [each.outcome for each in server.requests] == ["hung_up"]
    assert watched.text(0) == "Good eve"


async def test_five_failures_in_a_row_leave_a_service_alone_for_thirty_seconds(
    server: ModelServer, client: ProviderClient, clock: QuickClock, watched: Watched, model: str
) -> None:
    server.script.add(*[ScriptedAnswer(status=503)] * 20)
    for _ in range(5):
        assert (await failure(client, hello(model), watched)).attempts == 4
    failed = await failure(client, hello(model), watched)
    assert (failed.failure_code, failed.attempts, len(server.requests)) == ("overloaded", 0, 20)
    assert failed.retry_at_us == clock.now_us() + 30_000_000
    clock.advance(30.0)
    server.script.add(HI)
    assert text_of(await client.answer(hello(model), watched)) == "Good morning, Ada."


async def test_fallbacks_are_asked_in_their_order(
    server: ModelServer, client: ProviderClient, watched: Watched
) -> None:
    server.script.add(ScriptedAnswer(status=401), *[ScriptedAnswer(status=503)] * 4, HI)
    fallbacks = ("openai-chat:two", "ollama:three")
    request = ModelRequest("anthropic:one", "", [UserText("Hello")], fallbacks=fallbacks)
    answer = await client.answer(request, watched)
    assert (answer.model, answer.provider, answer.attempts) == ("ollama:three", "ollama", 6)
    assert [each.body["model"] for each in server.requests] == ["one", *["two"] * 4, "three"]


async def test_when_all_have_failed_the_first_failure_counts(
    server: ModelServer, client: ProviderClient, clock: QuickClock, watched: Watched
) -> None:
    server.script.add(ScriptedAnswer(status=401, message="No."), ScriptedAnswer(status=429, retry_after="90"))
    request = ModelRequest("anthropic:one", "", [UserText("Hello")], fallbacks=("ollama:two",))
    failed = await failure(client, request, watched)
    assert (failed.failure_code, failed.model, failed.attempts) == ("auth", "anthropic:one", 2)
    assert "anthropic:one answered with status 401: No. The fallbacks have failed too: ollama:two" in failed.message
    assert failed.retry_at_us == clock.now_us() + 90_000_000
    assert failed.next == "perdure model login anthropic"


async def test_a_vendor_without_a_key_is_not_asked(clock: QuickClock, watched: Watched) -> None:
    client = ProviderClient(ModelDefaults(), StoredSecrets(), clock, {})
    for model, variable in (("openai:m", "OPENAI_API_KEY"), ("anthropic:m", "ANTHROPIC_API_KEY")):
        failed = await failure(client, hello(model), watched)
        assert failed.failure_code == "auth"
        assert failed.message == f"{model} needs a key. Set {variable} or store one."
        assert failed.next == f"perdure model login {model.partition(':')[0]}"
    await client.close()


async def test_a_key_is_sent_and_never_said(
    server: ModelServer,
    client: ProviderClient,
    secrets: StoredSecrets,
    watched: Watched,
    model: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    key = "sk-canary-5f1d"
    secrets.update(dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_API_KEY"), key))
    server.script.add(ScriptedAnswer(status=401, message=f"Incorrect API key provided: {key}."), HI)
    failed = await failure(client, hello(model), watched)
    assert key in str(server.requests[0].headers)
    assert failed.message == f"{model} answered with status 401: Incorrect API key provided: ***."
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("perdure")]
    assert ours
    assert not any(key in said for said in [*ours, str(failed)])
    assert key not in str(server.requests[0].wire())


class UnreadableSecrets(StoredSecrets):
    """Secrets whose files cannot be read."""

    def read(self, name: str) -> str | None:
        raise Denied(f"The secret {name} cannot be read: Permission denied.")


async def test_a_stored_key_that_cannot_be_read_is_a_failure(clock: QuickClock, watched: Watched) -> None:
    client = ProviderClient(ModelDefaults(), UnreadableSecrets(), clock, {})
    failed = await failure(client, hello("openai:m"), watched)
    assert (failed.failure_code, failed.attempts) == ("auth", 1)
    assert failed.message == "The secret OPENAI_API_KEY cannot be read: Permission denied."
    assert failed.next == "perdure model login openai"


async def test_a_key_that_is_changed_counts_for_the_next_request(
    server: ModelServer, client: ProviderClient, secrets: StoredSecrets, watched: Watched
) -> None:
    server.script.add(HI, HI)
    secrets["OPENAI_API_KEY"] = "sk-first"
    await client.answer(hello("openai:m"), watched)
    secrets["OPENAI_API_KEY"] = "sk-second"
    await client.answer(hello("openai:m"), watched)
    assert [each.headers["authorization"] for each in server.requests] == ["Bearer sk-first", "Bearer sk-second"]


async def test_many_requests_at_once_keep_their_answers_apart(
    server: ModelServer, client: ProviderClient, model: str
) -> None:
    numbers = range(30)
    server.script.add(*[ScriptedAnswer(f"{number} " * 50, match=f"<{number}>") for number in numbers])
    watched = [Watched() for _ in numbers]
    requests = [ModelRequest(model, "", [UserText(f"<{number}>")]) for number in numbers]
    answers = await asyncio.gather(*(client.answer(*each) for each in zip(requests, watched, strict=True)))
    assert [text_of(answer) for answer in answers] == [f"{number} " * 50 for number in numbers]
    assert [each.text(0) for each in watched] == [text_of(answer) for answer in answers]
