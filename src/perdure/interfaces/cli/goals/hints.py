"""How to go on with a goal: commands that can be pasted as they stand."""

from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.exact import exact
from perdure.interfaces.cli.goals.timeline import moment
from perdure.interfaces.cli.goals.timers import waking_lines
from perdure.interfaces.cli.terminal import one_line
from perdure.kernel.events import Ask, GoalBegun, LimitName, ToolCall, Wait
from perdure.kernel.fold import CallState, GoalState
from perdure.minds.scripts import is_of_script, run_again

LIMIT_FLAGS: dict[LimitName, str] = {
    "iterations": "--max-iterations",
    "tokens": "--max-tokens",
    "usd": "--budget-usd",
    "seconds": "--timeout",
}
DECISIONS = {
    "skip": "skip it, if it happened: it counts as done",
    "retry": "retry it, if it did not happen: it is run",
    "abort": "abort: the goal ends as failed",
}
"""How an outcome that nobody knows may be settled, from what does the least."""


def go_on_line(options: Options, begun: GoalBegun, goal_id: str) -> str:
    """Say in a few words, with the exact command, how a goal goes on that waits for nothing."""
    return run_again(begun) if is_of_script(begun.mind) else f"`{exact(options, 'run', '--resume', goal_id)}` goes on."


def next_commands(options: Options, state: GoalState, *, is_running: bool = False) -> list[str]:
    """Say how to go on with a goal that has not ended, by the exact commands."""
    if state.termination is not None:
        return []
    is_script = is_of_script(state.begun.mind)
    said = [line for call in state.open_calls.values() for line in _settling(options, state, call)]
    if state.reached_limit is not None:
        said += _raising(options, state, state.reached_limit)
    elif is_script and not is_running:
        due = f"It sleeps until {moment(min(timers.values()))}; then " if (timers := state.timers()) else "To go on, "
        said += [one_line(f"{due if not said else 'Then '}{run_again(state.begun)}")]
    elif not is_running and state.waiting_for == "timer":
        said += waking_lines(options, state)
    elif not is_running and state.waiting_for is None:
        said += ["Go on:", "  " + exact(options, "run", "--resume", state.goal_id)]
    return said


def cut_off(state: GoalState) -> list[str]:
    """Say what becomes of the calls that were ended in the middle."""
    said = []
    for call in state.open_calls.values():
        if call.runs and isinstance(call.call, ToolCall):
            asks = "when you go on, its check is asked whether it happened, or you are"
            then = asks if call.call.effect == "once" else f"it is {call.call.effect}, so going on runs it again"
            said.append(one_line(f"{call.call.call_id} was cut off: {then}."))
    return said


def _settling(options: Options, state: GoalState, call: CallState) -> list[str]:
    about, goal_id = call.call, state.goal_id
    resume = () if is_of_script(state.begun.mind) else ("--resume",)
    if isinstance(about, Ask):
        return [one_line(f"{about.step} asks: {about.question}"), *_answers(options, goal_id, about, resume)]
    if isinstance(about, Wait) and about.signal is not None:
        command = exact(options, "goal", "signal", goal_id, about.signal, "JSON", *resume)
        return [one_line(f"{about.step} waits for signal {about.signal}"), f"  {command}"]
    if call.unknown is not None:
        why = one_line(f"Nobody knows how {about.call_id} ended. {call.unknown.why}")
        said = [f"{why} Did it happen? Find out, then decide:"]
        for decision, meaning in DECISIONS.items():
            command = exact(options, "goal", "decide", goal_id, about.call_id, decision, *resume)
            said += [f"  {meaning}:", f"    {command}"]
        return said
    if call.awaits_approval:
        commands = [exact(options, "goal", verb, goal_id, about.call_id) for verb in ("approve", "deny")]
        return [one_line(f"{about.call_id} needs approval."), *(f"  {command}" for command in commands)]
    return []


def _answers(options: Options, goal_id: str, question: Ask, resume: tuple[str, ...]) -> list[str]:
    """Return a command for each answer; where any will do, one with a word to put it in place of."""
    words = ("goal", "answer", goal_id, question.call_id)
    answers = ("ANSWER",) if question.options is None else question.options
    return [f"  {exact(options, *words, *_answered(each, resume))}" for each in answers]


def _answered(answer: str, resume: tuple[str, ...]) -> list[str]:
    """Let an answer that begins like an option be none."""
    return [*resume, "--", answer] if answer.startswith("-") else [answer, *resume]


def _raising(options: Options, state: GoalState, name: LimitName) -> list[str]:
    used = getattr(state.used, name)
    more = max(2 * used, 2 * (getattr(state.limits, name) or 0))
    value = f"{max(round(more), 1)}s" if name == "seconds" else f"{more:g}" if name == "usd" else str(int(more))
    command = exact(options, "goal", "resume", state.goal_id, LIMIT_FLAGS[name], value)
    return [f"Its limit of {name} is reached ({used:g} used). Raise it to go on:", f"  {command}"]
