"""The mind of a bot: each decision is one answer of a model to the transcript of its goal."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from perdure.errors import Invalid
from perdure.kernel.calls.children import child_goal_id, child_name
from perdure.kernel.calls.toolbox import Toolbox
from perdure.kernel.conversation.answer_feed import AnswerFeed
from perdure.kernel.conversation.conversation import MOST_FRUITLESS, is_answer, text_of
from perdure.kernel.conversation.messages import Message, ModelFailure, ModelTurn, Prompt, TranscriptSummary
from perdure.kernel.conversation.parts import ToolCallPart
from perdure.kernel.events import Ask, Body, LimitReached, Termination, ToolCall, ToolError, ToolOutput
from perdure.kernel.fold import ASSISTANT, MODEL, GoalState
from perdure.kernel.mind import Proposal
from perdure.kernel.tool import ToolSpec
from perdure.minds.model.answer import Arriving, estimated, turn_of
from perdure.minds.model.budget import affordable, context_tokens, unknown_price
from perdure.minds.model.ports import Delta, DeltaReset, ModelClient, ModelFailed, ModelRequest, ModelSettings
from perdure.minds.model.prompt import Profile, prompt_of, settings_of, specs
from perdure.minds.model.read_result import ReadResultTool
from perdure.minds.model.request import bytes_of, messages_of
from perdure.minds.model.results import attempts_to_make
from perdure.minds.model.summaries import FULL, LONGEST_SUMMARY, range_of, summary_request
from perdure.text.moments import iso
from perdure.text.storable import without_surrogates

_CONTINUE = "continue"
_STOP = "stop"


async def no_profile() -> Profile:
    """Return the built-in bot."""
    return Profile()


async def nothing_related(text: str) -> Sequence[Message]:  # noqa: ARG001 (there is no memory)
    """Return no related records."""
    return ()


@dataclass(frozen=True)
class ModelHost:
    """The dependencies that a home provides to the mind of one goal."""

    client: ModelClient
    profile: Callable[[], Awaitable[Profile]] = no_profile
    """Reads the current version of the bot."""
    related: Callable[[str], Awaitable[Sequence[Message]]] = nothing_related
    """Finds records of the memory that relate to the text or the first message of a goal, when it begins."""
    model: str | None = None
    """The model for later requests; None: unchanged."""
    compacts: bool = False
    """Whether the beginning of the conversation is summarised first, though the window is not full."""


class ModelMind:
    """Asks a model for each decision; see Mind. A recorded answer is never requested again."""

    is_slow = True

    def __init__(self, host: ModelHost, answers: AnswerFeed) -> None:
        self._host = host
        self._answers = answers
        self._state: GoalState | None = None
        self._specs: Mapping[str, ToolSpec] = {}
        self._must_compact = host.compacts
        self.read_result = ReadResultTool(lambda: self._state)

    async def prepare(self, state: GoalState, tools: Toolbox) -> Sequence[Body]:
        """See Mind.prepare. The prompt is recorded when it has changed, related records when the goal begins."""
        self._state = state
        is_chat = bool(state.begun.mind.chat)
        self._specs = {spec.name: spec for spec in specs(tools, is_chat=is_chat)}
        before = state.conversation.prompt
        recorded = before.model if before is not None else state.begun.mind.model
        model = self._host.model or state.conversation.chosen or recorded or ""
        window = self._host.client.context_window(model)
        prompt = prompt_of(state, await self._host.profile(), tools, model, window)
        is_begun = before is not None or state.conversation.turns > 0
        opening: list[Body] = [] if is_begun else [*await self._host.related(_beginning(state))]
        if before is None or before.sha256 != prompt.sha256:
            opening.append(prompt)
        return opening

    async def close(self) -> None:
        """See Mind.close. The client belongs to the home."""

    async def decide(self, state: GoalState, now_us: int) -> Proposal:  # noqa: ARG002 (a model knows no time)
        """See Mind.decide."""
        prompt, attempts = state.conversation.prompt, attempts_to_make(state)
        if attempts or state.open_calls or prompt is None:
            return Proposal(attempts)
        span = self._span_to_compact(state)
        is_idle = span is None and _is_idle(state)
        end = None if is_idle else _end(state)
        if is_idle or end is not None:
            return Proposal(end=end)
        models = [prompt.model, *self._fallbacks(state)]
        context = context_tokens(state, len(prompt.system.encode()) + len(orjson.dumps(prompt.tools)))
        allowed = self._allowed(state, models, settings_of(prompt), context)
        if isinstance(allowed, Proposal):
            return allowed
        try:
            return await self._request(state, prompt, models, allowed, context, span)
        except ModelFailed as failed:
            return Proposal(events=[_failure(failed)])
        except Invalid as error:  # there is no such model or provider: another one is chosen by a resume
            return Proposal(events=[_failure(_no_such_model(prompt.model, error))])

    def _span_to_compact(self, state: GoalState) -> tuple[int, int] | None:
        """Return the events to summarise because a person asked for it; once."""
        span = range_of(state) if self._must_compact else None
        self._must_compact = False
        return span

    def _allowed(
        self, state: GoalState, models: Sequence[str], settings: ModelSettings, context: int
    ) -> ModelSettings | Proposal:
        """Return the settings that the limits allow, or a decision that replaces the request."""
        unpriced = unknown_price(state, self._host.client, models)
        asked = None if unpriced is None else _ask_price(state, unpriced)
        if asked is not None:
            return asked
        found = affordable(state, self._host.client, models, settings, context)
        return Proposal(events=[found]) if isinstance(found, LimitReached) else found

    async def _request(
        self,
        state: GoalState,
        prompt: Prompt,
        models: Sequence[str],
        settings: ModelSettings,
        context: int,
        span: tuple[int, int] | None,
    ) -> Proposal:
        """Ask for a summary of `span`, or when the window is nearly full, else for the next turn."""
        is_full = context > FULL * self._host.client.context_window(prompt.model)
        if span is None and is_full:
            span = range_of(state)
        if span is not None:
            longest = min(settings.max_tokens or LONGEST_SUMMARY, LONGEST_SUMMARY)
            return await self._summarise(span, summary_request(state, span, prompt.model, longest))
        messages, tools = messages_of(state), [*self._specs.values()]
        return await self._ask(
            state, ModelRequest(prompt.model, prompt.system, messages, tools, settings, None, models[1:])
        )

    async def _ask(self, state: GoalState, request: ModelRequest) -> Proposal:
        """Send a request, and return the decision in its answer; after a cancel, record the partial answer."""
        number, arriving = state.conversation.turns + 1, Arriving()
        by = f"{MODEL}{state.begun.bot or ASSISTANT}"
        is_chat = bool(state.begun.mind.chat)
        sent_bytes = len(request.system.encode()) + bytes_of(request.messages)
        digest = hashlib.sha256(repr(request).encode(errors="backslashreplace")).hexdigest()

        def take(delta: Delta | DeltaReset) -> None:
            if isinstance(delta, Delta):
                delta = Delta(delta.part, delta.kind, without_surrogates(delta.text), delta.offset)
                self._answers.add(delta.part, delta.kind, delta.text, delta.offset)
            else:
                self._answers.reset()
            arriving.take(delta)

        self._answers.begin(number)
        try:
            answer = await self._host.client.answer(request, take)
        except asyncio.CancelledError:
            parts = arriving.parts()
            if not parts:
                raise
            usage = estimated(sent_bytes, parts)
            cost = self._host.client.cost_usd(request.model, usage)
            provider = request.model.partition(":")[0]
            cut = ModelTurn(number, request.model, provider, tuple(parts), "interrupted", usage, cost)
            return Proposal(events=[cut])
        finally:
            self._answers.end()
        turn = turn_of(answer, number)
        return self._proposal(replace(turn, request_sha256=digest), by, state.goal_id, is_chat=is_chat)

    def _proposal(self, turn: ModelTurn, by: str, goal_id: str, *, is_chat: bool) -> Proposal:
        """Return the proposal of a turn: its calls, or the end of the goal with its answer."""
        calls = [part for part in turn.parts if isinstance(part, ToolCallPart)]
        if not calls:
            is_end = is_answer(turn) and not is_chat
            return Proposal(events=[turn], end=Termination("done", value=text_of(turn)) if is_end else None)
        events: list[Body] = [turn]
        actions: list[ToolCall] = []
        for part in calls:
            call = ToolCall(part.call_id, part.call_id, part.tool, part.arguments or {}, "once", by=by, turn=turn.turn)
            spec = self._specs.get(part.tool)
            if part.arguments is None:
                events += [call, _refused(part, "The arguments were not a JSON object, or nested too deep.")]
            elif spec is None:
                known = ", ".join(self._specs)
                events += [call, _refused(part, f"There is no tool {part.tool!r}; known are {known}.")]
            elif spec.starts_goal:
                child = child_goal_id(goal_id, part.call_id, child_name(call.arguments))
                actions.append(replace(call, child=child))
            else:
                actions.append(call)
        effects = {self._specs[call.tool].effect for call in actions}
        return Proposal(actions, events=events, in_order=len(actions) > 1 and "once" in effects)

    async def _summarise(self, span: tuple[int, int], request: ModelRequest) -> Proposal:
        answer = await self._host.client.answer(request, lambda _delta: None)
        turn = turn_of(answer, 1)
        text = text_of(turn).strip() or "(The beginning of the conversation could not be summarised.)"
        summary = TranscriptSummary(*span, text, turn.model, turn.usage, turn.cost_usd, turn.duration_ms)
        return Proposal(events=[summary])

    def _fallbacks(self, state: GoalState) -> Sequence[str]:
        given = (state.begun.mind.options or {}).get("fallbacks", ())
        return [name for name in given if isinstance(name, str)] if isinstance(given, list | tuple) else []

    def has_news(self) -> bool:
        """See Mind.has_news. It decides only when it is asked."""
        return False

    def take_abandoned(self) -> Sequence[str]:
        """See Mind.take_abandoned. All its calls have an intent."""
        return ()

    def environment(self, state: GoalState, call: ToolCall) -> Mapping[str, str]:  # noqa: ARG002 (a call of a model has no environment)
        """See Mind.environment."""
        return {}


def _beginning(state: GoalState) -> str:
    """Return what a goal is about: its text, or the first message of a conversation, whose text is only a title."""
    texts = (each.text for _, each in state.conversation.entries if isinstance(each, Message) and each.role == "user")
    return next(texts, state.begun.text)


def _is_idle(state: GoalState) -> bool:
    """Return whether no answer is needed: a chat waits for a message, or a guard will end the goal."""
    if state.begun.mind.chat:
        return state.conversation.awaits_message
    return state.conversation.fruitless >= MOST_FRUITLESS


def _end(state: GoalState) -> Termination | None:
    """Return the end of a goal that follows from its history: from its last answer, or from an abort."""
    aborted = [name for name, call in state.calls.items() if call.decision and call.decision.decision == "abort"]
    if aborted and state.calls[aborted[-1]].seq > state.reopened_seq:
        return Termination("failed", f"{aborted[-1]} was aborted.", steps=(state.calls[aborted[-1]].call.step,))
    last = state.conversation.last
    if state.begun.mind.chat or not isinstance(last, ModelTurn) or not is_answer(last):
        return None
    seq = next(seq for seq, each in reversed(state.conversation.entries) if each is last)
    return Termination("done", value=text_of(last)) if seq > state.reopened_seq else None


def _ask_price(state: GoalState, model: str) -> Proposal | None:
    """Return the question whether to continue with an unknown price, or the end after a `stop`; None if continued."""
    step = f"price of {model}"
    asked = [call for call in state.calls.values() if call.call.step == step]
    answers = [call.decision.value for call in asked if call.decision is not None]
    if answers and answers[-1] == _STOP:
        return Proposal(end=Termination("blocked", f"The price of {model} is unknown."))
    if answers:
        return None
    question = f"The price of {model} is unknown, so the limit of ${state.limits.usd:g} cannot be enforced. Continue?"
    return Proposal([Ask(f"price.{len(asked) + 1}", step, question, (_CONTINUE, _STOP))])


def _refused(part: ToolCallPart, why: str) -> ToolOutput:
    return ToolOutput(part.call_id, ok=False, error=ToolError("invalid", why))


def _no_such_model(model: str, error: Invalid) -> ModelFailed:
    provider = model.partition(":")[0]
    return ModelFailed("rejected", error.detail, model=model, provider=provider, next="perdure model list")


def _failure(failed: ModelFailed) -> ModelFailure:
    return ModelFailure(
        failed.model,
        failed.provider,
        failed.failure_code,
        without_surrogates(failed.message),
        max(failed.attempts, 1),
        None if failed.retry_at_us is None else iso(failed.retry_at_us),
        failed.next,
    )
