"""The tool `remember`: a bot stores a record; a repeated call stores it once."""

import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from perdure import failpoints
from perdure.errors import Conflict, Invalid, NotFound, PerdureError
from perdure.kernel.events import ToolError, ToolOutput
from perdure.kernel.tool import CallContext, Check, KnownOutput, ToolSpec
from perdure.memory.ingest.checkout import path_in_repository
from perdure.memory.normalise import INGESTED_TYPES
from perdure.memory.tools.pins import pin_fingerprint, require_room, source_of
from perdure.memory.tools.ports import BotRecords
from perdure.memory.tools.quoting import LONGEST_BODY, LONGEST_TITLE
from perdure.memory.tools.scope import RecallScope, author_of

_MOST_PATHS = 20
_NAMESPACE = uuid.UUID("6f1c2a52-6a39-5c8e-9d35-4b7f7d1f0c11")
"""The namespace of record ids that are derived from the idempotency keys of calls."""
_WORD = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NAMES = ("type", "title", "body", "paths", "pin")
_SPEC = ToolSpec(
    "remember",
    "Stores a record in the memory, where later goals find it. Remember what would have helped you, in a title that"
    " says it and a body that explains it. Never store a secret.",
    {
        "type": "object",
        "properties": {
            "type": {
                "type": "string",
                "pattern": f"^{_WORD.pattern}$",
                "description": "lesson, decision, preference, fact, or another lower-case word.",
            },
            "title": {"type": "string", "pattern": r"\S", "maxLength": LONGEST_TITLE},
            "body": {"type": "string", "maxLength": LONGEST_BODY},
            "paths": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": _MOST_PATHS,
                "description": "The files that it is about, relative to the folder of the goal.",
            },
            "pin": {
                "type": "boolean",
                "description": "Add it to each of your prompts; all pins together have at most 4 KiB (default: false).",
            },
        },
        "required": ["type", "title", "body"],
        "additionalProperties": False,
    },
    "idempotent",
)


class RememberTool:
    """Stores records of one bot; see Tool. The id of a record is derived from the idempotency key of its call."""

    spec = _SPEC

    def __init__(self, records: BotRecords, scope: Callable[[], Awaitable[RecallScope]]) -> None:
        self._records = records
        self._scope = scope

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """See Tool.validate."""
        if unknown := sorted(arguments.keys() - {*_NAMES}):
            raise Invalid(f"remember has no argument {unknown[0]!r}. It has: {', '.join(_NAMES)}.")
        kind, paths = arguments.get("type"), arguments.get("paths", ())
        if not isinstance(kind, str) or not _WORD.fullmatch(kind):
            raise Invalid(f"type must be a lower-case word, such as lesson or decision, found {kind!r:.80}.")
        if kind in INGESTED_TYPES:
            raise Invalid(f"Records of type {kind} come from tools. Use lesson, decision, preference or fact.")
        _require_text(arguments, "title", LONGEST_TITLE)
        _require_text(arguments, "body", LONGEST_BODY)
        are_texts = isinstance(paths, list | tuple) and all(isinstance(path, str) for path in paths)
        if not are_texts or len(paths) > _MOST_PATHS:
            raise Invalid(f"paths must be a list of at most {_MOST_PATHS} texts, found {paths!r:.80}.")
        if not isinstance(arguments.get("pin", False), bool):
            raise Invalid(f"pin must be true or false, found {arguments['pin']!r:.80}.")

    async def run(self, context: CallContext) -> ToolOutput:
        """See Tool.run. A record that cannot be stored is an outcome, not an error of the goal."""
        call_id = context.call.call_id
        try:
            output = await self._file(context)
        except PerdureError as error:
            return ToolOutput(call_id, ok=False, error=ToolError(error.code, error.detail))
        return ToolOutput(call_id, output=output)

    async def _file(self, context: CallContext) -> Mapping[str, Any]:
        scope = await self._scope()
        record = _record(context, scope)
        if context.call.arguments.get("pin"):
            pins = [pin for pin in await self._records.pins(scope.bot) if pin["id"] != record["id"]]
            require_room(pins, record, scope.bot)
        context.require_ours()
        failpoints.hit("memory.remember.before")
        answer = await self._add(record, scope.bot)
        failpoints.hit("memory.remember.after")
        if answer.get("reason") == "disabled":
            raise Conflict("The memory is switched off (memory.enabled): nothing was stored.")
        record_id = answer.get("existing_id", record["id"])
        return {"record_id": record_id, "is_new": record_id == record["id"]}

    async def _add(self, record: Mapping[str, Any], bot: str) -> Mapping[str, Any]:
        """Store a record. A record with the same words is its duplicate only if this bot has made it."""
        answer = await self._records.add(record)
        existing = answer.get("existing_id")
        if existing is None or existing == record["id"]:
            return answer
        try:
            is_own = author_of(await self._records.get_exact(existing)) == bot
        except NotFound:
            is_own = False
        return answer if is_own else await self._records.add(record, dedupe=False)

    async def check(self, context: CallContext) -> Check:
        """See Tool.check."""
        record_id = _record_id(context)
        try:
            await self._records.get_exact(record_id)
        except NotFound:
            return "not_happened"
        return KnownOutput({"record_id": record_id, "is_new": True})

    async def reap(self, goal_id: str, call_id: str) -> None:
        """See Tool.reap. It leaves nothing running."""


def _record_id(context: CallContext) -> str:
    return str(uuid.uuid5(_NAMESPACE, context.idempotency_key))


def _record(context: CallContext, scope: RecallScope) -> dict[str, Any]:
    """Return the record of a call.

    Raises: Invalid when a path leads out of the folder.
    """
    arguments, metadata = context.call.arguments, {"bot": scope.bot, "goal_id": context.goal_id}
    paths = [path_in_repository(path, Path(context.workdir)) for path in arguments.get("paths", ())]
    record: dict[str, Any] = {
        "id": _record_id(context),
        "type": arguments["type"],
        "title": arguments["title"],
        "summary": arguments["body"],
        "source": source_of(scope.bot),
        "metadata": {**metadata, "call_id": context.call.call_id},
    }
    if paths:
        record["paths"] = paths
    if scope.repo is not None:
        record["repo"] = scope.repo
    if arguments.get("pin"):
        record["fingerprint"] = pin_fingerprint(scope.bot)
        record["metadata"]["pinned"] = True
    return record


def _require_text(arguments: Mapping[str, Any], name: str, longest: int) -> None:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > longest:
        raise Invalid(f"{name} must be a text of 1 to {longest:,} characters, found {value!r:.80}.")
