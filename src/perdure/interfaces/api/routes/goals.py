"""Goals over HTTP: start, look, go on, decide, signal, fork, end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import Response, StreamingResponse

from perdure.app.asked import require_same
from perdure.app.flows import load_flow
from perdure.app.new_goal import NewGoal, of_command, of_flow, of_plan_text
from perdure.app.views import GoalView
from perdure.errors import Conflict, Denied, Exhausted, Invalid, NotFound
from perdure.interfaces.api.envelope import Envelope, from_cursor, page, reply
from perdure.interfaces.api.gate import wants_stream
from perdure.interfaces.api.streams import event_stream
from perdure.interfaces.api.surface import BASE, Called, Cursor, Limit, Served, Surface
from perdure.kernel.events import Limits
from perdure.kernel.ports import Once, Status

router = APIRouter(prefix="/goals", tags=["goals"])

_HERE = f"{BASE}/goals"
_LARGEST = 2**63 - 1
_ENDED = ("done", "stopped")
Whole = Annotated[int, Field(ge=1, le=_LARGEST)]
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class LimitsBody(BaseModel):
    """How much a goal may use; what is left out has no limit."""

    model_config = ConfigDict(extra="forbid", strict=True)
    iterations: Whole | None = None
    tokens: Whole | None = None
    usd: Amount | None = None
    seconds: Amount | None = None

    def as_limits(self) -> Limits:
        """Return what the kernel counts by."""
        return Limits(self.iterations, self.tokens, self.usd, self.seconds)


class GoalBody(BaseModel):
    """A goal to be started: one of `text`, `plan` and `flow`."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"text": "echo hello"},
                {"plan": "goal: two steps\nsteps:\n  - id: a\n    exec: echo one\n  - id: b\n    exec: echo two\n"},
            ]
        },
    )
    text: Annotated[str, Field(min_length=1, max_length=100_000)] | None = None
    """A command line; it is run by a shell only when `shell` is true."""
    plan: Annotated[str, Field(min_length=1, max_length=500_000)] | None = None
    """The text of a plan."""
    flow: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """A flow, `module:function`, that the setting `flows` names."""
    args: list[Any] | dict[str, Any] | None = None
    bot: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    limits: LimitsBody = LimitsBody()
    shell: bool = False

    @model_validator(mode="after")
    def _is_one(self) -> "GoalBody":
        if sum(each is not None for each in (self.text, self.plan, self.flow)) != 1:
            raise ValueError("expected exactly one of text, plan and flow")
        if self.args is not None and self.flow is None:
            raise ValueError("only a flow takes args")
        if self.shell and self.text is None:
            raise ValueError("only a text is run by a shell")
        return self


class ResumeBody(BaseModel):
    """Limits that are raised."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{}, {"limits": {"seconds": 600}}]}
    )
    limits: LimitsBody = LimitsBody()


class ForkBody(BaseModel):
    """Where a goal is forked: after this event."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"at": 1}]})
    at: Whole


class CancelBody(BaseModel):
    """Nothing is needed to end a goal."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{}]})


class DecisionBody(BaseModel):
    """What somebody has decided about an open call; without an id, about the only one that it fits."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"decision": "answer", "value": "yes"}]}
    )
    decision: Literal["approve", "deny", "answer", "retry", "skip", "abort"]
    call_id: Annotated[str, Field(max_length=500)] | None = None
    value: Any = None


class SignalBody(BaseModel):
    """Something that a goal is told."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"name": "paid", "payload": {"order": 7}}]}
    )
    name: Annotated[str, Field(min_length=1, max_length=200)]
    payload: Any = None


class GoalOut(BaseModel):
    """A goal."""

    id: str
    text: str
    mind: Literal["command", "plan", "flow", "model"]
    bot: str | None
    status: Literal["running", "interrupted", "waiting", "done", "stopped"]
    reason: str | None
    waiting_for: Literal["person", "signal", "timer", "limit"] | None
    created_at: str
    updated_at: str
    last_seq: int
    steps: int
    cost_usd: float
    parent: dict[str, Any] | None
    output: Any
    detail: str | None


class EventOut(BaseModel):
    """One event of a goal."""

    v: int
    goal_id: str
    seq: int
    id: str
    type: str
    iteration: int
    timestamp: str
    payload: dict[str, Any]
    hash: str


GoalId = str
_GOAL = Envelope[GoalOut]
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
    204: {"description": "To a stream: all was seen, and nothing more will come."},
}


@router.post("", status_code=201, response_model=_GOAL)
async def create_goal(body: GoalBody, served: Served, once: Called) -> Response:
    """Start a goal; it runs in the server, and goes on when that is started anew.

    It is durable when this answers. A command or a plan runs in a folder of its own, `work/<id>` in the home.
    When 64 goals run, it is queued: until it runs, `status` is `interrupted` and `detail` says that it is queued. When
    10,000 are queued, the answer is 429.
    """
    new = await _new(body, served)
    async with _named(served, once) as key:
        goal = await served.serving.start(replace(new, key=key))
    return await _reply(served, goal, status=201)


@router.get("", response_model=Envelope[list[GoalOut]])
async def list_goals(
    served: Served,
    limit: Limit = 50,
    cursor: Cursor = None,
    status: Annotated[Status | None, Query(description="`open` is running or interrupted.")] = None,
) -> Response:
    """List goals, the newest first; `output` is null in a list, also when a goal has one."""
    found = await served.p.goals.list(limit=limit + 1, status=status, before=from_cursor(cursor))
    return page([goal.wire() for goal in found[:limit]], found[limit - 1].id if len(found) > limit else None)


@router.get("/{goal_id}", response_model=_GOAL)
async def show_goal(goal_id: GoalId, served: Served) -> Response:
    """Show a goal, by its id or a beginning of it that no other has."""
    return await _reply(served, await served.p.goals.find(goal_id))


@router.get("/{goal_id}/events", response_model=Envelope[list[EventOut]], responses=_STREAM)
async def list_events(
    request: Request,
    goal_id: GoalId,
    served: Served,
    after_seq: Annotated[int, Query(ge=0, le=_LARGEST)] = 0,
    limit: Limit = 200,
    cursor: Cursor = None,
) -> Response:
    """List the events of a goal after a seq; with `Accept: text/event-stream`, go on with those that come.

    A cursor counts more than `after_seq`, and so does `Last-Event-ID` with a stream. A stream ends with the goal; who
    asks for more gets 204.
    """
    goal = await served.p.goals.find(goal_id)
    if wants_stream(request.headers):
        after = _last_event_id(request.headers.get("last-event-id"), after_seq)
        if goal.status in _ENDED and after >= goal.summary.last_seq:
            return Response(status_code=204)  # or a browser would connect again and again, for nothing
        return StreamingResponse(event_stream(served, goal.id, after), media_type="text/event-stream")
    after = after_seq if cursor is None else _place(cursor)
    found = await served.p.goals.events(goal.id, after=after, limit=limit)
    has_more = bool(found) and found[-1].seq < goal.summary.last_seq
    links = {"goal": f"{_HERE}/{goal.id}"}
    return page([event.wire() for event in found], str(found[-1].seq) if has_more else None, links)


@router.post("/{goal_id}/resume", response_model=_GOAL)
async def resume_goal(goal_id: GoalId, served: Served, once: Called, body: ResumeBody | None = None) -> Response:
    """Go on with a goal in the server, with limits raised where they are given."""
    limits = (body or ResumeBody()).limits.as_limits()
    return await _reply(served, await served.serving.go_on(goal_id, limits, once=once))


@router.post("/{goal_id}/fork", status_code=201, response_model=_GOAL)
async def fork_goal(goal_id: GoalId, body: ForkBody, served: Served, once: Called) -> Response:
    """Make a goal that goes on from an event of another; it does not run until it is resumed."""
    goal = await served.p.goals.find(goal_id)
    async with _named(served, once, goal.id) as key:
        fork = await served.p.goals.fork(goal.id, body.at, key=key)
    return await _reply(served, fork, status=201)


@router.post("/{goal_id}/cancel", response_model=_GOAL)
async def cancel_goal(goal_id: GoalId, served: Served, once: Called, body: CancelBody | None = None) -> Response:
    """End a goal, and answer with it as it is then.

    What runs is ended first, for at most about eight seconds. A goal that still runs after that is answered as it is,
    and `detail` says that the cancel is pending.
    """
    del body
    goal = await served.p.goals.find(goal_id)
    async with _named(served, once, goal.id) as key:
        cancelled = await served.p.goals.cancel(goal.id, key=key)
    return await _reply(served, cancelled)


@router.post("/{goal_id}/decisions", response_model=_GOAL)
async def decide(goal_id: GoalId, body: DecisionBody, served: Served, once: Called) -> Response:
    """Decide about a call that waits for a person."""
    goal = await served.p.goals.find(goal_id)
    async with _named(served, once, goal.id) as key:
        told = await served.p.goals.decide(goal.id, body.decision, call_id=body.call_id, value=body.value, key=key)
    return await _gone_on(served, told)


@router.post("/{goal_id}/signals", response_model=_GOAL)
async def signal(goal_id: GoalId, body: SignalBody, served: Served, once: Called) -> Response:
    """Tell a goal something that it waits for, or will wait for."""
    goal = await served.p.goals.find(goal_id)
    async with _named(served, once, goal.id) as key:
        told = await served.p.goals.signal(goal.id, body.name, body.payload, key=key)
    return await _gone_on(served, told)


async def _gone_on(served: Surface, goal: GoalView) -> Response:
    """Answer with a goal that was told something; one of the server's goes on by itself."""
    served.serving.nudge()
    return await _reply(served, goal)


@asynccontextmanager
async def _named(served: Surface, once: Once | None, goal_id: str = "") -> AsyncIterator[str | None]:
    """Note a call under its key for the time that it is made; the goal is then told once, however often it is repeated.

    A call that is refused, and so has changed nothing, leaves its key free.

    Raises: KeyTaken when the key names another call.
    """
    if once is None:
        yield None
        return
    require_same(once, await served.p.keys.keep(replace(once, subject=goal_id)))
    try:
        yield once.key
    except (Invalid, NotFound, Conflict, Denied, Exhausted):
        await served.p.keys.forget(once)
        raise


async def _new(body: GoalBody, served: Surface) -> NewGoal:
    """Make what was asked for into a goal that can be started.

    Raises: Invalid
    """
    if body.bot is not None:
        try:
            await served.p.bots.get(body.bot)
        except NotFound as error:
            raise Invalid(error.detail) from error
    new = await _what(body, served)
    return replace(new, workdir=None, limits=body.limits.as_limits(), bot=body.bot)


async def _what(body: GoalBody, served: Surface) -> NewGoal:
    """Raises: Denied when the flow is none that may be started from outside: an import runs code."""
    match body:
        case GoalBody(text=str(text)):
            return of_command(text, shell=body.shell)
        case GoalBody(plan=str(plan)):
            return await asyncio.to_thread(of_plan_text, plan, "plan")  # a large one takes long to parse
        case _:
            path = str(body.flow)
    if path not in served.p.settings.flows:
        raise Denied(f"{path} is not among the flows that may be started here; the setting `flows` names them.")
    return await served.serving.apart.call(path, partial(_flow, path, body.args or []))


def _flow(path: str, args: list[Any] | dict[str, Any]) -> NewGoal:
    """Import a flow, and see that its arguments fit: both run code of a user."""
    try:
        flow = load_flow(path)
    except NotFound as error:
        raise Invalid(error.detail) from error
    return of_flow(flow, [], args) if isinstance(args, dict) else of_flow(flow, args, {})


def _last_event_id(given: str | None, after_seq: int) -> int:
    """Return where a stream goes on: what was seen last counts, if that is a seq of ours."""
    seq = None if given is None else _seq(given)
    return after_seq if seq is None else max(seq, after_seq)


def _place(cursor: str) -> int:
    """Return the seq that a cursor stands for.

    Raises: Invalid
    """
    seq = _seq(from_cursor(cursor) or "")
    if seq is None:
        raise Invalid("This cursor is none of a list of events; leave it out to begin anew.")
    return seq


def _seq(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


async def _reply(served: Surface, goal: GoalView, *, status: int = 200) -> Response:
    """Answer with a goal; one that has ended, with what came of it, which its summary does not have."""
    if goal.status in _ENDED and goal.termination is None:
        goal = replace(goal, termination=(await served.p.goals.state(goal.id)).termination)
    here = f"{_HERE}/{goal.id}"
    links = {"self": here, "events": f"{here}/events"}
    return reply(goal.wire(), links=links, status=status)
