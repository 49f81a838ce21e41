"""A note about the present waits of a goal."""

from perdure.kernel.calls.decisions import elapsed
from perdure.kernel.events import Ask, Wait
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState


def unawaited_note(state: GoalState, name: str, now_us: int) -> str | None:
    """Return a note if nothing waits for a signal now, with the present waits of the goal; else None."""
    late = {each.call_id for each in elapsed(state, now_us)}
    calls = [call for call_id, call in state.open_calls.items() if call_id not in late]
    if any(isinstance(call.call, Wait) and call.call.signal == name for call in calls):
        return None
    waits = [_about(call) for call in calls] or ["nothing"]
    return (
        f"Nothing waits for signal {name!r} now; it is kept until a step does. The goal waits for {', '.join(waits)}."
    )


def _about(call: CallState) -> str:
    match call.call:
        case Wait(signal=str(signal), until=until):
            return f"signal {signal!r}{'' if until is None else f' until {until}'}"
        case Wait(until=until):
            return f"a timer until {until}"
        case Ask(step=step, until=until):
            return f"an answer to {step}{'' if until is None else f' until {until}'}"
        case about if call.awaits_approval:
            return f"the approval of {about.call_id}"
        case about if call.unknown is not None:
            return f"a decision on {about.call_id}"
        case about:
            return f"the end of {about.step}"
