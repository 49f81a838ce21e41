"""The routes for goals: start, show, resume, retry, decide, signal, fork and cancel them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response, StreamingResponse

from perdure.app.goals.arguments.policies import PolicySpec, read_policy
from perdure.app.goals.arguments.run_options import Reopening
from perdure.app.goals.arguments.validate import require_seq
from perdure.app.goals.details import read_detail
from perdure.app.goals.new_goal import NewGoal, of_argv, of_command, of_flow, of_plan_text
from perdure.app.goals.reader import PAGE_BYTES
from perdure.app.idempotency import Idempotency, IdempotentCall
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.resources.goals import Goal, GoalDetail
from perdure.app.wire.resources.parameters import GoalFilters
from perdure.app.wire.resources.unions import Event
from perdure.app.wire.shown import require_hash
from perdure.app.workers.flows import load_flow
from perdure.errors import Denied, Invalid, NotFound
from perdure.interfaces.api.auth.security_middleware import wants_stream
from perdure.interfaces.api.dependencies import BASE, Called, Cursor, JsonRoute, Limit, Served, Surface
from perdure.interfaces.api.envelope import from_cursor, page, reply
from perdure.interfaces.api.schemas.envelopes import Envelope, Page, PageMeta
from perdure.interfaces.api.schemas.goals import (
    LARGEST,
    CancelBody,
    DecisionBody,
    ForkBody,
    GoalBody,
    PolicyBody,
    ResumeBody,
    RetryBody,
    SignalBody,
)
from perdure.interfaces.api.schemas.problems import refusals
from perdure.interfaces.api.streams import event_stream
from perdure.statuses import StatusWord


def require_plain_path(request: Request) -> None:
    """Reject a path with an encoded slash: the path is decoded before routing, so a key could select another goal.

    Raises: NotFound
    """
    if b"%2f" in request.scope.get("raw_path", b"").lower():
        raise NotFound(
            "A path must not contain %2F. To find a goal whose start key contains a slash, use GET /goals?key=KEY."
        )


router = APIRouter(prefix="/goals", tags=["goals"], route_class=JsonRoute, dependencies=[Depends(require_plain_path)])

_HERE = f"{BASE}/goals"
_TIME = "a time such as 2026-11-16T08:00:00Z, a date, or a duration such as 2h, counted back from now"


async def _wanted(  # noqa: PLR0913 (each is a parameter of the query)
    *,
    status: Annotated[
        list[StatusWord] | None, Query(description="May be repeated. `open` means running or interrupted.")
    ] = None,
    flow: Annotated[str | None, Query(description="Name of the flow, or `module:function`.")] = None,
    key: Annotated[str | None, Query(description="Start key.")] = None,
    bot: Annotated[str | None, Query(description="Slug of the bot.")] = None,
    tag: Annotated[str | None, Query(description="One of the goal's tags.")] = None,
    parent: Annotated[str | None, Query(description="Id of the goal that started it as its child.")] = None,
    since: Annotated[str | None, Query(description=f"Created at this time or later: {_TIME}.")] = None,
    until: Annotated[str | None, Query(description=f"Created before this time: {_TIME}.")] = None,
    queue: Annotated[str | None, Query(description="Queue: `cli`, `server` or `app.NAME`.")] = None,
) -> GoalFilters:
    named = GoalFilters(status=status, flow=flow, key=key, bot=bot, tag=tag, parent=parent, queue=queue)
    return {**named, "since": since, "until": until}


Wanted = Annotated[GoalFilters, Depends(_wanted)]
GoalId = str
_GOAL = Envelope[Goal]
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
    204: {"description": "No more events: the goal has ended (event streams only)."},
    **refusals(409),
}


@router.post("", operation_id="start_goal", status_code=201, response_model=_GOAL, responses=refusals(404, 429))
async def create_goal(body: GoalBody, served: Served, once: Called) -> Response:
    """Start a goal, which runs in the server and resumes after a restart of the server.

    The goal is durable when the response is sent. A goal other than a flow runs in its own folder, `work/<id>` in the
    home. A text for a model is 503 when no model is configured. When 64 goals run, the goal is queued: until it runs,
    `status` is `interrupted` and `detail` reports the queue. When 10,000 goals are queued, the response is 429.
    """
    new = await _new(body, served)
    key = None if once is None else once.key
    goal = await _keep_first(served, once, "", lambda: served.worker.start(replace(new, key=key)))
    return await _reply(served, goal, status=201)


@router.get("", operation_id="list_goals", response_model=Page[Goal, PageMeta])
async def list_goals(served: Served, wanted: Wanted, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List goals that match all filters, newest first, without outputs, failures and tokens."""
    found = await served.p.goals.list(limit=limit + 1, before=from_cursor(cursor), **wanted)
    return page([goal.wire() for goal in found[:limit]], found[limit - 1].id if len(found) > limit else None)


@router.get("/{goal_id}", operation_id="get_goal", response_model=Envelope[GoalDetail], responses=refusals(409))
async def show_goal(
    goal_id: GoalId,
    served: Served,
    prefix: Annotated[bool, Query(description="Also accept a unique prefix of an id.")] = False,
) -> Response:
    """Show a goal in detail: its calls, what it waits for, its limits and its children."""
    goals = served.p.goals
    shown = await read_detail(goals, await (goals.find(goal_id) if prefix else goals.get(goal_id)))
    return reply(shown.wire(), links=_links(shown.goal.id))


@router.get("/{goal_id}/events", operation_id="list_events", response_model=Page[Event, PageMeta], responses=_STREAM)
async def list_events(  # noqa: PLR0913, PLR0917 (each is a parameter of the query)
    request: Request,
    goal_id: GoalId,
    served: Served,
    after_seq: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    limit: Limit = 200,
    cursor: Cursor = None,
    deltas: Annotated[bool, Query(description="Stream answers of a model while they arrive, too.")] = False,
) -> Response:
    """List the events of a goal after a seq; with `Accept: text/event-stream`, stream them and all new events.

    `cursor` takes precedence over `after_seq`; so does `Last-Event-ID` for a stream. A stream ends with the goal, and a
    further request is 204. A page has at most 4 MiB of events, but at least one event. A seq that the goal has not
    reached is 409, with its `last_seq`.
    """
    goal = await served.p.goals.get(goal_id)
    if wants_stream(request.headers):
        after = _last_event_id(request.headers.get("last-event-id"), after_seq)
        require_seq(goal.summary, after)
        if goal.is_final and after == goal.summary.last_seq:
            return Response(status_code=204)  # otherwise a browser would reconnect forever
        stream = await event_stream(served, goal.id, after, with_answers=deltas)
        return StreamingResponse(stream, media_type="text/event-stream")
    after = after_seq if cursor is None else place_after(cursor)
    found = await served.p.goals.events(goal.id, after=after, limit=limit, max_bytes=PAGE_BYTES)
    has_more = bool(found) and found[-1].seq < goal.summary.last_seq
    links = {"goal": f"{_HERE}/{goal.id}"}
    return page([event.wire() for event in found], str(found[-1].seq) if has_more else None, links)


@router.post("/{goal_id}/resume", operation_id="resume_goal", response_model=_GOAL, responses=refusals(429))
async def resume_goal(goal_id: GoalId, served: Served, once: Called, body: ResumeBody | None = None) -> Response:
    """Resume a goal in the server, with higher limits if specified; a goal for a model also with another model."""
    wanted = body or ResumeBody()
    limits = wanted.limits.as_limits()
    return await _reply(
        served, await served.worker.resume(goal_id, limits, model=wanted.model, compacts=wanted.compact, once=once)
    )


@router.post("/{goal_id}/retry", operation_id="retry_goal", response_model=_GOAL, responses=refusals(429))
async def retry_goal(goal_id: GoalId, served: Served, once: Called, body: RetryBody | None = None) -> Response:
    """Retry a failed goal in the server: its failed steps are called again, completed steps are not.

    A failed step that may have had its effect is not repeated: the goal waits for a decision on it. A goal that has not
    failed, or whose flow started other steps because of the failure, is 409.
    """
    wanted = body or RetryBody()
    goal = await served.p.goals.get(goal_id)
    key, policy = None if once is None else once.key, _policy(wanted.policy)
    again = Reopening(wanted.reason, wanted.limits.as_limits(), key, policy=policy)
    retried = await _keep_first(served, once, goal.id, lambda: served.worker.retry(goal.id, again))
    return await _reply(served, retried)


@router.post("/{goal_id}/fork", operation_id="fork_goal", status_code=201, response_model=_GOAL)
async def fork_goal(goal_id: GoalId, body: ForkBody, served: Served, once: Called) -> Response:
    """Fork a goal: the new goal shares its events up to a point. It does not run until it is resumed.

    The point is exactly one of `at`, `before`, `after` and `before_message`. Calls that are open there are void and
    called again. If one of them is a `once` step that `repeat` does not name, the answer is 409 and names the nearest
    points that repeat nothing. `text` and `model` are for a conversation: with `text`, the fork is resumed.
    """
    goal = await served.p.goals.get(goal_id)
    if body.text is not None or body.model is not None:
        return await _fork_conversation(goal.id, body, served, once)
    key = None if once is None else once.key
    policy = None if body.policy is None else body.policy.model_dump()
    copy = partial(
        served.p.goals.fork,
        goal.id,
        body.at,
        before=body.before,
        after=body.after,
        before_message=body.before_message,
        repeat=body.repeat,
        take_key=body.take_key,
        key=key,
        policy=policy,
    )
    fork = await _keep_first(served, once, goal.id, copy)
    return await _reply(served, fork, status=201)


@router.post("/{goal_id}/cancel", operation_id="cancel_goal", response_model=_GOAL)
async def cancel_goal(goal_id: GoalId, served: Served, once: Called, body: CancelBody | None = None) -> Response:
    """Cancel a goal, and return it.

    Running steps are ended first, which takes up to about eight seconds. If the goal still runs after that, `detail`
    reports that the cancel is pending. A flow with `cleanup` cleans up before the goal ends; `now` ends it at once.
    """
    wanted = body or CancelBody()
    goal = await served.p.goals.get(goal_id)
    key = None if once is None else once.key
    cancel = partial(served.worker.cancel, goal.id, reason=wanted.reason, now=wanted.now, key=key)
    cancelled = await _keep_first(served, once, goal.id, cancel)
    return await _reply(served, cancelled)


@router.post("/{goal_id}/decisions", operation_id="decide_call", response_model=_GOAL)
async def decide(goal_id: GoalId, body: DecisionBody, served: Served, once: Called) -> Response:
    """Decide a call that waits for a person. An approval names what was shown, so that no other call is approved."""
    goal = await served.p.goals.get(goal_id)
    key = None if once is None else once.key
    require_hash(body.decision, body.shown_sha256)
    given = {"call_id": body.call_id, "value": body.value, "shown_sha256": body.shown_sha256}
    choose = partial(served.p.goals.decide, goal.id, body.decision, **given, key=key)
    goal = await _keep_first(served, once, goal.id, choose)
    return await _resume(served, goal)


@router.post("/{goal_id}/signals", operation_id="send_signal", response_model=_GOAL)
async def signal(goal_id: GoalId, body: SignalBody, served: Served, once: Called) -> Response:
    """Send a signal to a goal, which may wait for it now or later."""
    goal = await served.p.goals.get(goal_id)
    key = None if once is None else once.key
    send = partial(served.p.goals.signal, goal.id, body.name, body.payload, key=key)
    goal = await _keep_first(served, once, goal.id, send)
    return await _resume(served, goal)


async def _fork_conversation(goal_id: str, body: ForkBody, served: Surface, once: IdempotentCall | None) -> Response:
    """Fork a conversation, and run the fork if something is said in it."""
    key = None if once is None else once.key
    policy = None if body.policy is None else body.policy.model_dump()
    copy = partial(
        served.p.goals.conversations.fork,
        goal_id,
        body.at,
        before_message=body.before_message,
        text=body.text,
        model=body.model,
        key=key,
        policy=policy,
    )
    fork = await _keep_first(served, once, goal_id, copy)
    if body.text is not None:
        await served.worker.resume_posted(fork)
        fork = await served.p.goals.get(fork.id)
    return await _reply(served, fork, status=201)


async def _resume(served: Surface, goal: GoalView) -> Response:
    """Return a goal after a post to it, and notify the worker of the server, which resumes its own goals."""
    served.worker.poll_soon()
    return await _reply(served, goal)


async def _keep_first(
    served: Surface, once: IdempotentCall | None, goal_id: str, change: Callable[[], Awaitable[GoalView]]
) -> GoalView:
    """Store the key of a call, then change the goal; its event has the key, too, so a repetition changes nothing.

    Raises: KeyTaken when the key names another call.
    """
    return await Idempotency(served.p.keys).keep_first(once, goal_id, change)


async def _new(body: GoalBody, served: Surface) -> NewGoal:
    """Return the new goal that a body describes.

    Raises: Invalid
    """
    if body.bot is not None:
        try:
            await served.p.bots.get(body.bot)
        except NotFound as error:
            raise Invalid(error.detail) from error
    policy = _policy(body.policy)
    new = await _what(body, served)
    if body.text is None:
        new = replace(new, limits=body.limits.as_limits(), bot=body.bot)
    return replace(new, workdir=None, tags=tuple(body.tags), policy=policy)


def _policy(body: PolicyBody | None) -> PolicySpec | None:
    """Return the policy of a body.

    Raises: Invalid when the preset is unknown.
    """
    return None if body is None else read_policy(body.model_dump())


async def _what(body: GoalBody, served: Surface) -> NewGoal:
    """Make what was asked for into a goal, without what all goals have.

    Raises: Invalid; NoModel; Denied when the flow is none that may be started from outside: an import runs code.
    """
    match body:
        case GoalBody(text=str(text)):
            goals, limits = served.p.goals.model_goals, body.limits.as_limits()
            return await goals.new(text, bot=body.bot, model=body.model, chat=False, limits=limits)
        case GoalBody(command=str(line)):
            return of_command(line, shell=body.shell)
        case GoalBody(command=list(argv)):
            return of_argv(argv)
        case GoalBody(plan=str(plan)):
            return await asyncio.to_thread(of_plan_text, plan, "plan")  # parsing a large plan takes long
        case _:
            path = str(body.flow)
    if path not in served.p.settings.flows:
        raise Denied(f"The flow {path} is not allowed. Add it to the setting `flows`.")
    return await served.worker.apart.call(path, partial(_flow, path, body.args or [], served.p.settings.imports))


def _flow(path: str, args: list[Any] | dict[str, Any], imports: Sequence[str]) -> NewGoal:
    """Import a flow and check its arguments; both run user code."""
    try:
        flow = load_flow(path, imports)
    except NotFound as error:
        raise Invalid(error.detail) from error
    return of_flow(flow, [], args) if isinstance(args, dict) else of_flow(flow, args, {})


def _last_event_id(header: str | None, after_seq: int) -> int:
    """Return the seq after which a stream continues: that of the header if it is valid, else `after_seq`."""
    seq = None if header is None else _seq(header)
    return after_seq if seq is None else max(seq, after_seq)


def place_after(cursor: str) -> int:
    """Return the seq that a cursor encodes.

    Raises: Invalid
    """
    seq = _seq(from_cursor(cursor) or "")
    if seq is None:
        raise Invalid("Unknown cursor: it is not from a list of events. Omit it to start at the beginning.")
    return seq


def _seq(text: str) -> int | None:
    """Parse a seq; None if it is not a number. A number beyond 64 bits becomes the largest seq."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    return min(int(digits), LARGEST) if len(digits) <= len(str(LARGEST)) else LARGEST


async def _reply(served: Surface, goal: GoalView, *, status: int = 200) -> Response:
    """Return a response with a goal, its result and its next commands."""
    goal = await served.p.goals.look_into(goal)
    return reply(goal.wire(), links=_links(goal.id), status=status)


def _links(goal_id: str) -> dict[str, str]:
    here = f"{_HERE}/{goal_id}"
    return {"self": here, "events": f"{here}/events"}
