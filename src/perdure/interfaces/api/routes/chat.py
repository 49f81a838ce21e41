"""The routes for conversations: start one, list them, send a message, stop an answer, read the transcript."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from perdure.app.conversations.listed import ConversationPlace
from perdure.app.idempotency import Idempotency, IdempotentCall
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.resources.chat.conversations import Conversation, PostedMessage
from perdure.app.wire.resources.goals import Goal
from perdure.app.wire.resources.unions import TranscriptEntry
from perdure.interfaces.api.dependencies import BASE, Called, Cursor, JsonRoute, Limit, Served, Surface
from perdure.interfaces.api.envelope import from_cursor, page, reply
from perdure.interfaces.api.routes.bots import Slug
from perdure.interfaces.api.routes.goals import place_after, require_plain_path
from perdure.interfaces.api.schemas.chat import ChatBody, MessageBody, StopBody
from perdure.interfaces.api.schemas.envelopes import Envelope, Page, PageMeta
from perdure.interfaces.api.schemas.goals import LARGEST
from perdure.interfaces.api.schemas.problems import refusals

router = APIRouter(tags=["chat"], route_class=JsonRoute, dependencies=[Depends(require_plain_path)])
_GOALS = f"{BASE}/goals"


@router.post(
    "/bots/{slug}/chat",
    operation_id="start_conversation",
    status_code=201,
    response_model=Envelope[Goal],
    responses=refusals(429),
)
async def start_conversation(slug: Slug, body: ChatBody, served: Served, once: Called) -> Response:
    """Start a durable conversation with a bot, which the server runs; `assistant` is the built-in bot.

    Without a configured model, the response is 503.
    """
    key = None if once is None else once.key
    policy = None if body.policy is None else body.policy.model_dump()
    limits = body.limits.as_limits()
    begin = served.p.goals.conversations.new
    new = await begin(body.text, bot=slug, model=body.model, limits=limits, policy=policy, key=key)
    new = replace(new, workdir=None)
    goal = await _keep_first(served, once, "", lambda: served.worker.start(new))
    goal = await served.p.goals.look_into(goal)
    return reply(goal.wire(), links=_links(goal.id), status=201)


@router.get("/bots/{slug}/chat", operation_id="list_conversations", response_model=Page[Conversation, PageMeta])
async def list_conversations(slug: Slug, served: Served, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the conversations with a bot, the last used first; ended ones too. `assistant` is the built-in bot.

    A conversation that is used between two pages moves to the front, and is not listed again.
    """
    place = from_cursor(cursor)
    after = None if place is None else ConversationPlace.read(place)
    found, following = await served.p.goals.conversations.list(slug, limit=limit, after=after)
    return page([each.wire() for each in found], None if following is None else str(following))


@router.post(
    "/goals/{goal_id}/messages",
    operation_id="send_message",
    status_code=202,
    response_model=Envelope[PostedMessage],
)
async def send_message(goal_id: str, body: MessageBody, served: Served, once: Called) -> Response:
    """Send a message to a conversation. The server then runs the conversation, unless another live worker owns it.

    The message is durable when the response is sent. It stays pending while the model answers, and is read before the
    next request to the model.
    """
    talk = served.p.goals.conversations
    key = uuid4().hex if once is None else once.key
    goal = await _keep_first(served, once, goal_id, lambda: talk.say(goal_id, body.text, key=key))
    await served.worker.resume_posted(goal)
    return reply(await talk.posted(goal.id, key), links=_links(goal.id), status=202)


@router.post(
    "/goals/{goal_id}/stop", operation_id="stop_answer", status_code=202, response_model=Envelope[PostedMessage]
)
async def stop_answer(goal_id: str, served: Served, once: Called, body: StopBody | None = None) -> Response:  # noqa: ARG001 (it has no fields)
    """Stop the answer of the model. The received part is kept, and the conversation waits for the next message.

    `seq` is the event of the stopped answer; null if the model was not answering.
    """
    talk = served.p.goals.conversations
    key = uuid4().hex if once is None else once.key
    goal = await _keep_first(served, once, goal_id, partial(talk.stop, goal_id, key=key))
    return reply(await talk.posted(goal.id, key), links=_links(goal.id), status=202)


@router.get(
    "/goals/{goal_id}/transcript",
    operation_id="read_transcript",
    response_model=Page[TranscriptEntry, PageMeta],
    responses=refusals(409),
)
async def read_transcript(
    goal_id: str,
    served: Served,
    after_seq: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
    limit: Limit = 200,
    cursor: Cursor = None,
) -> Response:
    """Return the transcript of a goal of a model: messages, answers, results of calls, decisions and summaries.

    `cursor` takes precedence over `after_seq`. For a goal without a model, the response is 409.
    """
    after = after_seq if cursor is None else place_after(cursor)
    found, last = await served.p.goals.conversations.transcript(goal_id, after=after, limit=limit)
    return page(found, None if last is None else str(last), {"goal": f"{_GOALS}/{goal_id}"})


async def _keep_first(
    served: Surface, once: IdempotentCall | None, goal_id: str, change: Callable[[], Awaitable[GoalView]]
) -> GoalView:
    return await Idempotency(served.p.keys).keep_first(once, goal_id, change)


def _links(goal_id: str) -> dict[str, str]:
    here = f"{_GOALS}/{goal_id}"
    return {"self": here, "events": f"{here}/events", "transcript": f"{here}/transcript"}
