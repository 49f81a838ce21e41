"""The tools `read_file` and `write_file`, for files in the folder of the goal."""

import asyncio
import codecs
import errno
import hashlib
import os
import re
import stat
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from perdure import failpoints
from perdure.errors import Conflict, Invalid, PerdureError, Unavailable
from perdure.files.atomic import PartFile, part_file
from perdure.files.fsync import fsync_folder
from perdure.files.opening import open_file
from perdure.kernel.events import ToolOutput
from perdure.kernel.recovery import EXHAUSTION
from perdure.kernel.tool import CallContext, Check, ToolSpec
from perdure.tools.confine import opened_folder, require_path
from perdure.tools.outcome import failed

MAX_BYTES = 1 << 20
_CHUNK = 1 << 18
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FILE_MODE = 0o666
"""The mode of a new file, before the umask, like a file that a command creates."""
_ANYTHING = object()
_PATH = {"type": "string", "minLength": 1, "pattern": r"^[^\u0000]+$"}


class ReadFileTool:
    """Reads a file; it changes nothing, so it is `pure`."""

    spec = ToolSpec(
        "read_file",
        "Reads a text file of the goal's folder: content, size and SHA-256. Of a long file, only the beginning is"
        " returned.",
        {
            "type": "object",
            "properties": {
                "path": {**_PATH, "description": "The file, relative to the goal's folder."},
                "max_bytes": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": MAX_BYTES,
                    "description": f"How much of the file to return (default: {MAX_BYTES}).",
                },
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        "pure",
    )

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """See Tool.validate. The target of the path is checked when it is read."""
        _to_read(arguments)

    async def run(self, context: CallContext) -> ToolOutput:
        """See Tool.run. The hash covers the whole file, even if only its beginning is returned."""
        return await _outcome(context, lambda _begun: _read(context))

    async def check(self, context: CallContext) -> Check:  # noqa: ARG002 (the port names it)
        """See Tool.check. Reading leaves no trace."""
        return "unknown"

    async def reap(self, goal_id: str, call_id: str) -> None:
        """See Tool.reap. No process outlives this one."""


class WriteFileTool:
    """Writes a file atomically: after a crash it has the old or the new content."""

    spec = ToolSpec(
        "write_file",
        "Writes a text file of the goal's folder, completely or not at all. Missing folders are created.",
        {
            "type": "object",
            "properties": {
                "path": {**_PATH, "description": "The file, relative to the goal's folder."},
                "content": {"type": "string", "description": "The whole new content."},
                "expected_sha256": {
                    "type": ["string", "null"],
                    "pattern": f"^{_SHA256.pattern}$",
                    "description": "The SHA-256 of the file as it was read, or null if it must not exist: another file"
                    " is not overwritten.",
                },
            },
            "required": ["path", "content"],
            "additionalProperties": False,
        },
        "once",
    )

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """See Tool.validate. The target of the path is checked when it is written."""
        _to_write(arguments)

    async def run(self, context: CallContext) -> ToolOutput:
        """See Tool.run. It is durable when it returns; a cancellation waits for the write."""
        return await _outcome(context, lambda report_effect: _write(context, report_effect))

    async def check(self, context: CallContext) -> Check:
        """See Tool.check. Compares the file with the new content and with the expected old content."""
        return await asyncio.to_thread(_check, context)

    async def reap(self, goal_id: str, call_id: str) -> None:
        """See Tool.reap. No process outlives this one."""


@dataclass(frozen=True, slots=True)
class _FileState:
    """The state of a file when it was read."""

    beginning: bytes
    size: int
    sha256: str
    mode: int


@dataclass(frozen=True, slots=True)
class _NewContent:
    """The new content of a file, and the expected hash of the old one: None if it must not exist."""

    path: str
    content: bytes
    sha256: str
    expected: object


def _read(context: CallContext) -> dict[str, Any]:
    path, limit = _to_read(context.call.arguments)
    with opened_folder(context.workdir, path) as (folder, name):
        state = _read_state(folder, name, limit)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return {
        "content": decoder.decode(state.beginning, final=state.size <= limit),  # no character is split
        "size": state.size,
        "sha256": state.sha256,
        "truncated": state.size > limit,
    }


def _write(context: CallContext, report_effect: Callable[[], None]) -> dict[str, Any]:
    """Write a file; `report_effect` is called when it may have its new content: a later error is not a failure then."""
    new = _to_write(context.call.arguments)
    with opened_folder(context.workdir, new.path, make=not isinstance(new.expected, str)) as (folder, name):
        before = _read_state_if_exists(folder, name)
        sha256_before = before.sha256 if before else None
        if new.expected not in (_ANYTHING, sha256_before):
            raise Conflict(f"{new.path!r} is not what was expected (sha256 {new.expected}, found {sha256_before}).")
        with part_file(name, name=_part_name(context), mode=_FILE_MODE, folder=folder) as part:
            if before is not None:
                os.fchmod(part.fd, before.mode)
            part.write(new.content)
            part.fsync()
            try:
                _rename_part(part, name, is_new=new.expected is None)
            except OSError as error:
                if error.errno == errno.EIO:
                    report_effect()
                raise
            report_effect()
            failpoints.hit("tools.write.flush")
    return {"size": len(new.content), "sha256_before": sha256_before, "sha256_after": new.sha256}


def _check(context: CallContext) -> Check:
    try:
        new = _to_write(context.call.arguments)
        with opened_folder(context.workdir, new.path) as (folder, name):
            state = _read_state_if_exists(folder, name)
            fsync_folder(folder)  # the writer may have died after the rename, before it was durable
    except FileNotFoundError:  # its folder does not exist either
        state = None
    except (PerdureError, OSError):
        return "unknown"
    sha256_before = state.sha256 if state else None
    if sha256_before == new.sha256:
        return "happened"
    return "not_happened" if sha256_before == new.expected else "unknown"


def _to_read(arguments: Any) -> tuple[str, int]:
    parameters = _require_known("read_file", arguments, {"path", "max_bytes"})
    limit = parameters.get("max_bytes", MAX_BYTES)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= MAX_BYTES:
        raise Invalid(f"max_bytes must be a whole number from 0 to {MAX_BYTES}, not {limit!r:.80}.")
    return require_path(parameters.get("path")), limit


def _to_write(arguments: Any) -> _NewContent:
    parameters = _require_known("write_file", arguments, {"path", "content", "expected_sha256"})
    expected = parameters.get("expected_sha256", _ANYTHING)
    is_hash = isinstance(expected, str) and _SHA256.fullmatch(expected)
    if expected is not _ANYTHING and expected is not None and not is_hash:
        raise Invalid("expected_sha256 must be 64 hexadecimal digits in lower case, or null.")
    text = parameters.get("content")
    if not isinstance(text, str):
        raise Invalid("content must be a string.")
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"content is not Unicode text: {error}.") from error
    return _NewContent(require_path(parameters.get("path")), content, hashlib.sha256(content).hexdigest(), expected)


def _require_known(tool: str, arguments: Any, names: set[str]) -> Mapping[str, Any]:
    if not isinstance(arguments, Mapping):
        raise Invalid(f"The arguments of {tool} must be an object.")
    if unknown := sorted(map(repr, arguments.keys() - names)):
        raise Invalid(f"{tool} has no argument {unknown[0]}. It has: {', '.join(sorted(names))}.")
    return arguments


def _read_state(folder: int, name: str, limit: int = 0) -> _FileState:
    file = open_file(name, folder=folder)
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            raise Invalid(f"{name!r} is not a file.")
        beginning, size, digest = bytearray(), 0, hashlib.sha256()
        while chunk := os.read(file, _CHUNK):
            beginning += chunk[: limit - len(beginning)]
            size += len(chunk)
            digest.update(chunk)
    finally:
        os.close(file)
    return _FileState(bytes(beginning), size, digest.hexdigest(), stat.S_IMODE(mode))


def _read_state_if_exists(folder: int, name: str) -> _FileState | None:
    try:
        return _read_state(folder, name)
    except FileNotFoundError:
        return None


def _part_name(context: CallContext) -> str:
    """Return a name that depends on the call, so that the next attempt finds the part that a crash left."""
    key = context.idempotency_key.encode(errors="surrogatepass")
    return f".perdure-{hashlib.sha256(key).hexdigest()[:16]}.part"


def _rename_part(part: PartFile, name: str, *, is_new: bool) -> None:
    if not is_new:
        part.replace()
        return
    try:
        part.publish()
    except FileExistsError:
        raise Conflict(f"{name!r} already exists, and is not replaced.") from None


class _Attempt:
    """Work on a thread that runs at most once, and never after it was abandoned."""

    def __init__(self, context: CallContext, work: Callable[[Callable[[], None]], dict[str, Any]]) -> None:
        self._call = context.call
        self._work = work
        self._ticket = threading.Lock()
        self._effect = threading.Event()

    def run(self) -> ToolOutput:
        """Do the work. An error is a failure until the work reports that its effect may have begun."""
        if not self.take():
            return failed(self._call, Unavailable("It was abandoned before it started."))
        try:
            return ToolOutput(self._call.call_id, ok=True, output=self._work(self._effect.set))
        except (PerdureError, OSError) as error:
            if self._effect.is_set():
                raise
            return failed(self._call, error)

    def take(self) -> bool:
        """Take the work, to do or abandon it; return False if it was already taken."""
        return self._ticket.acquire(blocking=False)


async def _outcome(context: CallContext, work: Callable[[Callable[[], None]], dict[str, Any]]) -> ToolOutput:
    """Do the work in a thread; a cancellation waits until it is done, so that no work continues unobserved."""
    attempt = _Attempt(context, work)
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    thread_work = asyncio.ensure_future(asyncio.to_thread(attempt.run))
    try:
        outcome = await asyncio.shield(thread_work)
    except EXHAUSTION as error:
        if not attempt.take():
            raise
        outcome = failed(context.call, error)  # no thread could be started, and the pool may run the work later
    except asyncio.CancelledError:
        while not thread_work.done():  # a thread cannot be stopped
            with suppress(asyncio.CancelledError):
                await asyncio.wait([thread_work])
        raise
    return replace(outcome, duration_ms=round((loop.time() - started_s) * 1000))
