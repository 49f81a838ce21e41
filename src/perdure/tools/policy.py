"""Rules for what may be done without asking."""

from perdure.kernel.events import ToolCall
from perdure.kernel.ports import Verdict


class AllowAll:
    """The policy for what a person started: typing a command, or starting a plan, has allowed what is in it."""

    def judge(self, call: ToolCall) -> Verdict:  # noqa: ARG002 (the port names it)
        return "allow"
