"""What wakes a goal that sleeps."""

import time

from perdure.app.server_mark import is_served
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.exact import exact
from perdure.interfaces.cli.goals.timeline import in_words, moment
from perdure.kernel.fold import GoalState


def waking_lines(options: Options, state: GoalState) -> list[str]:
    """Say when a goal that only sleeps is due, or since when it is, and what resumes it."""
    due_us = min(state.timers().values())
    late_us = time.time_ns() // 1000 - due_us
    is_due = late_us >= 0
    said = f"It sleeps until {moment(due_us)}."
    if is_due:
        said = f"It has been due since {moment(due_us)} ({in_words(late_us // 1000)})."
    command = f"  {exact(options, 'goal', 'resume', state.goal_id)}"
    if is_served(options.settings().home):
        return [said, "The server that runs on this home resumes it. Without the server:", command]
    all_due, serve = exact(options, "goal", "resume", "--due"), exact(options, "serve")
    return [
        said,
        f"No server runs on this home that would resume it. {'Resume it:' if is_due else 'Resume it then:'}",
        command,
        f"All that are due are resumed by `{all_due}`, and by",
        f"`{serve}` while it runs.",
    ]
