"""Goals of a model: what they wait for, what counts towards their limits, and what a stop records."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from perdure import Conflict, Invalid
from perdure.kernel.conversation.parts import FinishReason, TextPart, TokenUsage, ToolCallPart
from perdure.kernel.events import (
    Ask,
    Body,
    Decision,
    GoalBegun,
    Head,
    LimitRaised,
    LimitReached,
    Limits,
    Message,
    MindSpec,
    ModelFailure,
    ModelTurn,
    Prompt,
    Reopened,
    Termination,
    ToolCall,
    ToolOutput,
    TranscriptSummary,
    seal,
)
from perdure.kernel.fold import GoalState, WaitingFor, fold
from perdure.kernel.history.compare import compare
from perdure.kernel.history.forking import ForkRequest, fork_point
from perdure.kernel.history.replay import replay
from perdure.kernel.loop import Loop, RunResult
from perdure.kernel.mind import Proposal
from perdure.kernel.summary import summarise
from perdure.text.moments import moment_us
from tests.kernel.test_fold import history
from tests.kernel.test_slow_minds import SlowMind, bodies, never
from tests.kernel.world import World

MODEL = "m:one"
CHAT = GoalBegun("g", MindSpec("model", model=MODEL, chat=True))
RUN = GoalBegun("g", MindSpec("model", model=MODEL))
HELLO = Message("hello")
FAILED = ModelFailure(MODEL, "m", "timeout", "No answer within 600 s.")


def turn(number: int = 1, text: str = "hi", finish: FinishReason = "stop", **fields: Any) -> ModelTurn:
    return replace(ModelTurn(number, MODEL, "m", (TextPart(text),) if text else (), finish), **fields)


def calling(number: int, *call_ids: str) -> ModelTurn:
    parts = tuple(ToolCallPart(call_id, "exec", {"argv": [call_id]}) for call_id in call_ids)
    return ModelTurn(number, MODEL, "m", parts, "tool_calls")


def call(call_id: str, **fields: Any) -> ToolCall:
    return ToolCall(call_id, call_id, "exec", {"argv": [call_id]}, "once", by="model:assistant", turn=1, **fields)


@pytest.mark.parametrize(
    ("said", "chat", "run"),
    [
        ([], "message", None),
        ([HELLO], None, None),
        ([Message("about", "context", "memory")], "message", None),
        ([HELLO, turn()], "message", None),
        ([HELLO, turn(), Message("about", "context", "memory")], "message", None),
        ([HELLO, turn(), Message("and?")], None, None),
        ([HELLO, turn(finish="interrupted")], "message", None),
        ([HELLO, turn(text="", finish="interrupted")], "message", None),
        ([HELLO, turn(text="", finish="empty")], None, None),
        ([HELLO, turn(text=" \n")], None, None),
        ([HELLO, turn(finish="length")], None, None),
        ([HELLO, *(turn(n, finish="refusal") for n in (1, 2, 3))], "message", None),
        ([HELLO, turn(), TranscriptSummary(1, 2, "They said hello.", MODEL)], "message", None),
        ([HELLO, calling(1, "t1.1"), call("t1.1")], "person", "person"),
        ([HELLO, calling(1, "t1.1"), Ask("t1.1", "t1.1", "Sure?")], "person", "person"),
        ([HELLO, calling(1, "t1.1"), call("t1.1"), Decision("t1.1", "approve"), ToolOutput("t1.1")], None, None),
        ([HELLO, FAILED], "model", "model"),
        ([HELLO, FAILED, turn()], "message", None),
        ([HELLO, FAILED, Message("again")], None, None),
        ([HELLO, FAILED, Prompt("0", "m:two", "")], None, None),
        ([HELLO, calling(1, "t1.1"), Ask("t1.1", "t1.1", "Sure?"), FAILED], "person", "person"),
        ([HELLO, LimitReached("usd", 0.1, 0.2)], "limit", "limit"),
        ([HELLO, LimitReached("usd", 0.1, 0.2), FAILED], "limit", "limit"),
        ([HELLO, LimitReached("usd", 0.1, 0.2), LimitRaised("tokens", 9)], "limit", "limit"),
        ([HELLO, LimitReached("usd", 0.1, 0.2), LimitRaised("usd", 9)], None, None),
        ([HELLO, turn(), LimitReached("usd", 0.1, 0.2)], "limit", "limit"),
        ([HELLO, turn(), Termination("cancelled")], None, None),
    ],
)
def test_what_the_goal_of_a_model_waits_for(
    said: Sequence[Body], chat: WaitingFor | None, run: WaitingFor | None
) -> None:
    assert (fold(history(CHAT, *said)).waiting_for, fold(history(RUN, *said)).waiting_for) == (chat, run)


def test_a_child_that_a_model_wants_waits_for_its_approval_first() -> None:
    child = replace(call("t1.1"), tool="delegate", child="k")
    asked: list[Body] = [HELLO, calling(1, "t1.1"), child]
    assert fold(history(RUN, *asked)).waiting_for == "person"
    assert fold(history(RUN, *asked, Decision("t1.1", "approve"))).waiting_for == "child"


def test_turns_and_summaries_count_towards_the_limits() -> None:
    used = TokenUsage(10, 5, cache_read=7, reasoning=2)
    counted = turn(usage=used, cost_usd=0.5, duration_ms=1500)
    unknown = turn(2, usage=used)
    summary = TranscriptSummary(1, 2, "short", MODEL, used, 0.25, 500)
    state = fold(history(CHAT, HELLO, counted, unknown, summary))
    assert (state.used.tokens, state.used.usd, state.used.seconds) == (45, 0.75, 2.0)


def written(*pairs: tuple[int, Body]) -> GoalState:
    """Fold bodies, each with the iteration that it was recorded in."""
    head, events = Head("g"), []
    for iteration, body in pairs:
        events.append(seal(body, head, event_id="e", iteration=iteration, timestamp_us=1))
        head = Head("g", events[-1].seq, events[-1].hash)
    return fold(events)


def test_the_limit_of_iterations_counts_from_the_last_message_of_a_person() -> None:
    chat = replace(CHAT, limits=Limits(iterations=2))
    before: list[tuple[int, Body]] = [(0, chat), (0, HELLO), (1, turn(1, "", "empty")), (2, turn(2))]
    assert written(*before).reached_limit == "iterations"
    context = Message("about", "context", "memory")
    assert written(*before, (2, context)).reached_limit == "iterations"
    assert written(*before, (2, HELLO)).reached_limit is None
    assert written(*before, (2, HELLO), (3, turn(3))).reached_limit is None


@pytest.mark.parametrize(("is_chat", "ends"), [(False, "no_progress"), (True, None)])
async def test_three_fruitless_answers_in_a_row_are_the_end_of_a_run_and_a_chat_waits(
    world: World, *, is_chat: bool, ends: str | None
) -> None:
    texts: list[tuple[str, FinishReason]] = [
        ("", "empty"),
        ("I will not", "refusal"),
        ("cut", "length"),
        ("no", "stop"),
    ]

    async def decide(_mind: SlowMind, state: GoalState) -> Proposal:
        if state.waiting_for is not None:
            return Proposal()
        number = state.conversation.turns
        return Proposal(events=[turn(number + 1, *texts[number])])

    world.minds.append(SlowMind(decide))
    ran = await world.start(MindSpec("model", model=MODEL, chat=is_chat), said=[HELLO])
    assert ran.state.conversation.turns == 3
    assert ran.state.used.iterations == 3
    assert ran.state.termination == (
        Termination("no_progress", "The last 3 answers were empty, cut off or refusals.") if ends else None
    )
    assert ran.state.waiting_for == (None if ends else "message")


def test_a_message_or_a_retry_counts_fruitless_answers_again() -> None:
    fruitless = [turn(number, "", "empty") for number in (1, 2)]
    assert fold(history(RUN, *fruitless, HELLO, *fruitless)).conversation.fruitless == 2
    state = fold(history(RUN, *fruitless, Termination("no_progress"), Reopened("person", None, 4)))
    assert state.conversation.fruitless == 0


async def test_guards_look_only_at_what_came_after_the_last_message(world: World) -> None:
    number = 0

    async def decide(_mind: SlowMind, state: GoalState) -> Proposal:
        nonlocal number
        if state.open_calls:
            return Proposal()
        if len(state.calls) in (2, 4) and isinstance(state.conversation.last, ModelTurn):
            await world.store.post("goal-a", "message", {"text": "go on"}, key=f"m{len(state.calls)}")
            return Proposal(events=[turn(state.conversation.turns + 1)])
        if len(state.calls) == 6:
            return Proposal(events=[turn(state.conversation.turns + 1)], end=Termination("done"))
        number = state.conversation.turns + 1
        same = ToolCall(f"t{number}.1", "same", "exec", {"argv": ["same"]}, "once", by="model:assistant", turn=number)
        return Proposal([same], events=[calling(number, f"t{number}.1")])

    world.minds.append(SlowMind(decide))
    ran = await world.start(MindSpec("model", model=MODEL, chat=True), said=[HELLO])
    assert ran.state.termination == Termination("done")
    assert world.tool.effects["same"] == 6


async def begin(
    world: World, decide: Callable[[SlowMind, GoalState], Awaitable[Proposal]], *, is_chat: bool = True
) -> tuple["asyncio.Task[RunResult]", Loop, SlowMind]:
    """Start a conversation; return when the mind was asked."""
    loops: list[Loop] = []
    mind = SlowMind(decide)
    world.watch = loops.append
    world.minds.append(mind)
    task = asyncio.create_task(world.start(MindSpec("model", model=MODEL, chat=is_chat), said=[HELLO]))
    async with asyncio.timeout(5):
        while not mind.asked_at and not task.done():  # noqa: ASYNC110 (the loop asks it)
            await asyncio.sleep(0)
    return task, loops[0], mind


def answering(said: "asyncio.Event") -> Callable[[SlowMind, GoalState], Awaitable[Proposal]]:
    """Answer each message once it may be said; what a stop cuts short is recorded."""

    async def decide(_mind: SlowMind, state: GoalState) -> Proposal:
        if state.waiting_for is not None:
            return Proposal()
        number = state.conversation.turns + 1
        try:
            await said.wait()
        except asyncio.CancelledError:
            return Proposal(events=[turn(number, "so far", "interrupted")])
        return Proposal(events=[turn(number)])

    return decide


async def test_an_answer_of_a_chat_is_two_commits_with_its_message(world: World) -> None:
    said, commits = asyncio.Event(), list[list[str]]()
    task, loop, _ = await begin(world, answering(said))
    loop.journal.listen(lambda events, _state: commits.append([each.type for each in events]))
    said.set()
    ran = await asyncio.wait_for(task, 5)
    assert (ran.outcome, ran.state.status, ran.state.waiting_for) == ("waiting", "waiting", "message")
    assert commits == [["model_turn"]]
    assert [type(body) for body in await bodies(world)] == [GoalBegun, Message, ModelTurn]


async def test_a_message_during_an_answer_is_recorded_behind_it_and_answered_next(world: World) -> None:
    said = asyncio.Event()
    task, loop, mind = await begin(world, answering(said))
    await world.store.post("goal-a", "message", {"text": "and?"}, key="m")
    loop.check_inbox()
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(await bodies(world)) == 2
    said.set()
    ran = await asyncio.wait_for(task, 5)
    assert ran.state.waiting_for == "message"
    assert (await bodies(world))[1:] == [HELLO, turn(1), Message("and?"), turn(2)]
    assert mind.asked_at == [2, 4]


async def test_a_stop_records_what_was_said_by_then_and_the_goal_waits(world: World) -> None:
    task, loop, _ = await begin(world, answering(asyncio.Event()))
    await world.store.post("goal-a", "stop", {}, key="s")
    loop.check_inbox()
    ran = await asyncio.wait_for(task, 5)
    assert (await bodies(world))[1:] == [HELLO, turn(1, "so far", "interrupted")]
    assert ran.state.waiting_for == "message"


async def test_a_message_before_a_stop_is_answered_after_it(world: World) -> None:
    said = asyncio.Event()
    task, loop, _ = await begin(world, answering(said))
    await world.store.post("goal-a", "message", {"text": "rather this"}, key="m")
    await world.store.post("goal-a", "stop", {}, key="s")
    loop.check_inbox()
    async with asyncio.timeout(5):
        while Message("rather this") not in await bodies(world):  # noqa: ASYNC110 (as stored)
            await asyncio.sleep(0)
    said.set()
    await asyncio.wait_for(task, 5)
    interrupted = turn(1, "so far", "interrupted")
    assert (await bodies(world))[1:] == [HELLO, interrupted, Message("rather this"), turn(2)]


async def test_a_stop_while_a_tool_runs_lets_it_end_and_asks_the_model_no_more(world: World) -> None:
    loops: list[Loop] = []

    async def finish(_context: object) -> None:
        await world.store.post("goal-a", "stop", {}, key="s")
        loops[0].check_inbox()
        for _ in range(20):
            await asyncio.sleep(0)

    async def decide(_mind: SlowMind, state: GoalState) -> Proposal:
        if state.open_calls or state.waiting_for is not None:
            return Proposal()
        assert not state.calls
        return Proposal([call("t1.1")], events=[calling(1, "t1.1")])

    world.tool.then = finish
    world.watch = loops.append
    world.minds.append(SlowMind(decide))
    ran = await asyncio.wait_for(world.start(MindSpec("model", model=MODEL, chat=True), said=[HELLO]), 5)
    assert ran.state.waiting_for == "message"
    assert ran.state.calls["t1.1"].outcome is not None
    assert ran.state.conversation.last == turn(2, "", "interrupted")


async def test_calls_of_an_answer_that_is_stopped_when_it_is_complete_do_not_begin(world: World) -> None:
    asked = asyncio.Event()

    async def decide(_mind: SlowMind, state: GoalState) -> Proposal:
        if state.waiting_for is not None:
            return Proposal()
        try:
            await never(_mind, state)
        except asyncio.CancelledError:
            asked.set()
        whole = replace(calling(1, "t1.1"), parts=(TextPart("I will."), *calling(1, "t1.1").parts))
        return Proposal([call("t1.1")], events=[whole])

    task, loop, _ = await begin(world, decide)
    await world.store.post("goal-a", "stop", {}, key="s")
    loop.check_inbox()
    ran = await asyncio.wait_for(task, 5)
    assert ran.state.conversation.last == turn(1, "I will.", "interrupted")
    assert (dict(world.tool.effects), ran.state.calls) == ({}, {})


async def test_a_stop_of_an_idle_chat_records_nothing(world: World) -> None:
    said = asyncio.Event()
    said.set()
    task, _, _ = await begin(world, answering(said))
    await task
    await world.store.post("goal-a", "stop", {}, key="s")
    assert (await world.settle()).head.seq == 3


async def test_a_posted_message_opens_an_idle_chat(world: World) -> None:
    said = asyncio.Event()
    said.set()
    task, _, _ = await begin(world, answering(said))
    await task
    await world.store.post("goal-a", "message", {"text": "and?", "by": "person"}, key="m")
    assert (await world.settle()).status == "open"
    world.minds.append(SlowMind(answering(said)))
    ran = await world.resume()
    assert (ran.state.waiting_for, ran.state.conversation.last) == ("message", turn(2))


async def test_a_goal_that_is_no_chat_takes_no_message(world: World) -> None:
    task, loop, _ = await begin(world, never, is_chat=False)
    loop.stop()
    await task
    await world.store.post("goal-a", "message", {"text": "and?"}, key="m")
    assert (await world.settle()).head.seq == 2


@pytest.mark.parametrize("records", [True, False])
async def test_a_stop_of_the_run_records_the_beginning_of_an_answer_only_where_it_is_not_asked_for_again(
    world: World, *, records: bool
) -> None:
    world.records_cut_short = records
    task, loop, _ = await begin(world, answering(asyncio.Event()))
    loop.stop()
    ran = await asyncio.wait_for(task, 5)
    assert ran.outcome == "interrupted"
    cut = [turn(1, "so far", "interrupted")] if records else []
    assert (await bodies(world))[1:] == [HELLO, *cut]


async def test_a_model_that_fails_ends_the_run_and_the_next_run_asks_again(world: World) -> None:
    async def fail(_mind: SlowMind, _state: GoalState) -> Proposal:
        return Proposal(events=[FAILED])

    task, _, mind = await begin(world, fail, is_chat=False)
    ran = await asyncio.wait_for(task, 5)
    assert (ran.outcome, ran.state.waiting_for, len(mind.asked_at)) == ("waiting", "model", 1)
    again = SlowMind(fail)
    world.minds.append(again)
    ran = await world.resume()
    assert (ran.state.waiting_for, len(again.asked_at)) == ("model", 1)
    assert (await bodies(world))[-2:] == [FAILED, FAILED]

    async def end(_mind: SlowMind, _state: GoalState) -> Proposal:
        return Proposal(events=[turn()], end=Termination("done", value="hi"))

    world.minds.append(SlowMind(end))
    assert (await world.resume()).state.status == "done"


def test_a_goal_is_due_when_its_model_may_be_asked_again() -> None:
    later = replace(FAILED, retry_at="2026-01-01T00:00:00.000000Z")
    assert summarise(fold(history(RUN, later))).due_us == moment_us("2026-01-01T00:00:00.000000Z")
    assert summarise(fold(history(RUN, FAILED))).due_us is None
    assert summarise(fold(history(RUN, later, turn()))).due_us is None


async def test_what_a_mind_prepares_is_durable_before_it_is_asked(world: World) -> None:
    prompt = Prompt("0", MODEL, "You are a bot.")
    stored: list[int] = []

    async def decide(_mind: SlowMind, _state: GoalState) -> Proposal:
        stored.append(len(await world.store.load("goal-a")))
        return Proposal(events=[turn()], end=Termination("done"))

    mind = SlowMind(decide)
    mind.opening = [prompt]
    world.minds.append(mind)
    await world.start(MindSpec("model", model=MODEL), said=[HELLO])
    assert stored == [3]
    assert (await bodies(world))[1:3] == [HELLO, prompt]


def test_a_fork_before_a_message_keeps_all_that_came_before_it() -> None:
    context = Message("about", "context", "memory")
    events = history(CHAT, HELLO, context, turn(1), Message("and?"), turn(2))
    assert fork_point(events, ForkRequest(before_message=5)) == 4
    assert fork_point(events, ForkRequest(before_message=2)) == 1
    assert fold(events[:1]).waiting_for == "message"
    for seq in (1, 3, 4, 7):
        with pytest.raises(Conflict, match=f"Event {seq} of g is not a message of a person; its messages are events 2"):
            fork_point(events, ForkRequest(before_message=seq))
    with pytest.raises(Invalid, match="exactly one"):
        fork_point(events, ForkRequest(before_message=5, at=1))


def test_the_hash_of_a_replay_covers_what_was_said() -> None:
    one, two = (history(CHAT, HELLO, turn(1, text)) for text in ("hi", "ho"))
    hashes = [replay(events, summarise(fold(events))).state_hash for events in (one, two)]
    assert hashes[0] != hashes[1]


def test_two_conversations_are_compared_by_what_was_said() -> None:
    first = turn(usage=TokenUsage(1, 2), cost_usd=0.5, duration_ms=9, response_id="a", request_sha256="0")
    one, two = history(CHAT, HELLO, first, Message("and?")), history(CHAT, HELLO, turn(), Message("or?"))
    assert compare(one, two).common == 3
