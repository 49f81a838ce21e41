"""Runs the functions that a flow names as its steps."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any

from perdure.errors import Invalid, PerdureError
from perdure.kernel.events import ToolError, ToolOutput
from perdure.kernel.ports import CallContext, Check
from perdure.minds.flow_calls import KEY, Request, Work
from perdure.minds.values import to_json


class StepTool:
    """Runs steps of a flow in this process. See Tool."""

    name = "step"

    def __init__(self, requests: Mapping[str, Request]) -> None:
        self._requests = requests

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """See Tool.validate. The flow has made them itself."""

    async def run(self, context: CallContext) -> ToolOutput:
        """See Tool.run."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        output, error = None, None
        try:
            work = self._work(context)
            KEY.set(context.idempotency_key)
            async with asyncio.timeout(work.timeout_s):
                output = to_json(await call(work.fn, work), f"What {context.call.step} returned")
        except TimeoutError as raised:
            error = ToolError("timeout", str(raised) or "The step took longer than it may.")
        except PerdureError as raised:
            error = ToolError(raised.code, raised.detail)
        except Exception as raised:  # noqa: BLE001 (whatever a step raises is its outcome)
            error = ToolError(type(raised).__name__, str(raised))
        duration_ms = round((loop.time() - begun_s) * 1000)
        call_ = context.call
        is_pure = call_.effect == "pure"
        return ToolOutput(
            call_.call_id,
            ok=error is None,
            output=output,
            error=error,
            duration_ms=duration_ms,
            step=call_.step if is_pure else None,
            digest=call_.arguments["digest"] if is_pure else None,
            effect="pure" if is_pure else None,
        )

    async def check(self, context: CallContext) -> Check:
        """See Tool.check. Asks the step's own check, with the arguments of the step."""
        work = self._work(context)
        if work.check is None:
            return "unknown"
        try:
            answer = await call(work.check, work)
        except Exception:  # noqa: BLE001 (a check that fails knows nothing)
            return "unknown"
        answers: dict[bool, Check] = {True: "happened", False: "not_happened"}
        return answers[answer] if isinstance(answer, bool) else "unknown"

    async def reap(self, goal_id: str, call_id: str) -> None:
        """See Tool.reap. A step ends with the process that runs it."""

    def _work(self, context: CallContext) -> Work:
        request = self._requests.get(context.call.step)
        if request is None or not isinstance(request.wanted, Work):
            raise Invalid(f"The flow does not ask for {context.call.step}.")
        return request.wanted


async def call(fn: Callable[..., Any], work: Work) -> Any:
    """Call a function with the arguments of a step: an async one here, any other on a thread of its own."""
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None)):  # noqa: B004
        return await fn(*work.args, **work.kwargs)
    result = await _on_thread(lambda: fn(*work.args, **work.kwargs))
    return await result if inspect.isawaitable(result) else result


async def _on_thread(fn: Callable[[], Any]) -> Any:
    """Run a function on a daemon thread: one that never returns keeps nobody from ending the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):
            future.set_exception(RuntimeError("the step raised StopIteration"))
        else:
            future.set_exception(error)

    def work() -> None:
        try:
            result, error = context.run(fn), None
        except BaseException as raised:  # noqa: BLE001 (it is handed over, and raised there)
            result, error = None, raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name="perdure-step", daemon=True).start()
    return await future
