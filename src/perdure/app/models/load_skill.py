"""The tool `load_skill`: the prompt of a bot names its skills, and the tool returns the text of one."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from perdure.bots.skills import Skill
from perdure.errors import Invalid
from perdure.kernel.events import ToolError, ToolOutput
from perdure.kernel.tool import CallContext, Check, ToolSpec

_SPEC = ToolSpec(
    "load_skill",
    "Reads one of your skills: how something is done. Load a skill before you do what it is about.",
    {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "The name of the skill."}},
        "required": ["name"],
        "additionalProperties": False,
    },
    "pure",
)


class LoadSkillTool:
    """Reads a skill of one bot; see Tool."""

    spec = _SPEC

    def __init__(self, skills: Callable[[], Awaitable[Sequence[Skill]]]) -> None:
        self._skills = skills

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """See Tool.validate."""
        if unknown := sorted(arguments.keys() - {"name"}):
            raise Invalid(f"load_skill has no argument {unknown[0]!r}. It has: name.")
        if not isinstance(arguments.get("name"), str):
            raise Invalid(f"name must be a string, got {arguments.get('name')!r}.")

    async def run(self, context: CallContext) -> ToolOutput:
        """See Tool.run."""
        call_id, name = context.call.call_id, context.call.arguments["name"]
        skills = {skill.name: skill for skill in await self._skills()}
        if name not in skills:
            known = ", ".join(skills) or "none"
            error = ToolError("not_found", f"No skill {name!r}. Known skills: {known}.")
            return ToolOutput(call_id, ok=False, error=error)
        return ToolOutput(call_id, output=skills[name].instructions)

    async def check(self, context: CallContext) -> Check:  # noqa: ARG002 (it has no effect)
        """See Tool.check."""
        return "not_happened"

    async def reap(self, goal_id: str, call_id: str) -> None:
        """See Tool.reap. It leaves nothing running."""
