"""The parsed arguments of `perdure run`: checks them, and creates the new goal."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from perdure.app.goals.arguments.limits import Limits
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import NewGoal, of_argv, of_command, of_plan
from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.goals.run_ui.flows import new_flow
from perdure.interfaces.cli.shell_hints import exact

_PLAN_SUFFIXES = (".yaml", ".yml")
_ONE_OF = (
    'Pass exactly one of "TEXT" for a model, -- COMMAND, --shell LINE, --plan FILE, --flow MODULE:FUNCTION,'
    " --resume ID, --continue and --list."
)
_KEY = "--key applies to a new durable goal; it cannot be used with --ephemeral, --resume or --continue."


def _reject_plan_as_text(options: Options, text: str | None) -> None:
    """Reject the name of a YAML file as a text: it is probably a plan without --plan.

    Raises: Invalid
    """
    if text is not None and text.endswith(_PLAN_SUFFIXES) and not any(map(str.isspace, text)):
        with suppress(OSError, ValueError):  # not a name that a file can have
            if Path(text).is_file():
                command = exact(options, "run", "--plan", text)
                raise Invalid(f"{text} is a file. To run it as a plan: {command}")


@dataclass(frozen=True)
class RunArguments:
    """The parsed arguments of `run`."""

    text: str | None
    argv: Sequence[str] | None
    """The words of a command after `--`."""
    shell: str | None
    plan: Path | None
    flow: str | None
    args: str | None
    key: str | None
    resume: str | None
    bot: str | None
    model: str | None
    is_continued: bool
    is_list: bool
    tags: Sequence[str] = ()
    policy: str | None = None

    def require_valid(self, options: Options, *, ephemeral: bool, is_limited: bool, jsonl: bool) -> None:
        """Reject contradictory options.

        Raises: Invalid
        """
        _reject_plan_as_text(options, self.text)
        new = [each is not None for each in (self.text, self.argv, self.shell, self.plan, self.flow)]
        if sum([*new, self.resume is not None, self.is_continued, self.is_list]) != 1:
            raise Invalid(_ONE_OF)
        self._require_fitting_options(options)
        if ephemeral:
            self._require_not_kept(is_new=any(new))
        if not any(new):
            self._require_no_start()
        if self.is_list and (is_limited or jsonl):
            raise Invalid("--list runs nothing: it cannot be used with limits or --jsonl.")

    def _require_fitting_options(self, options: Options) -> None:
        """Reject options of another kind of goal.

        Raises: Invalid
        """
        if self.argv is not None and not self.argv:
            raise Invalid(f"Missing command after --, for example: {exact(options, 'run', '--', 'echo', 'hello')}")
        is_resumed = self.resume is not None or self.is_continued
        if self.text is None and (self.bot is not None or (self.model is not None and not is_resumed)):
            raise Invalid("--bot and --model apply to a task for a model; --model also to --resume and --continue.")
        if self.args is not None and self.flow is None:
            raise Invalid("--args has the arguments of a flow; use it with --flow.")

    def _require_not_kept(self, *, is_new: bool) -> None:
        """Reject options that an ephemeral goal does not support.

        Raises: Invalid
        """
        if not is_new:
            raise Invalid("--ephemeral applies to a new goal: an ephemeral goal can be neither resumed nor listed.")
        if self.text is not None:
            raise Invalid("--ephemeral applies to a command, a plan or a flow: goals of a model are always durable.")
        if self.key is not None:
            raise Invalid(_KEY)

    def _require_no_start(self) -> None:
        """Reject options that only apply to a new goal.

        Raises: Invalid
        """
        if self.key is not None:
            raise Invalid(_KEY)
        if self.tags:
            raise Invalid("--tag applies to a new goal; the tags of an existing goal do not change.")
        if self.policy is not None:
            raise Invalid("--policy applies to a new goal; an existing goal keeps its policy.")

    async def new(self, goals: Goals, imports: Sequence[str], limits: Limits) -> NewGoal:
        """Return the requested goal, to be started.

        Raises: Invalid; NotFound when there is no such bot, plan or flow; NoModel when a text needs one.
        """
        if self.text is not None:
            return await goals.model_goals.new(self.text, bot=self.bot, model=self.model, chat=False, limits=limits)
        return replace(self._without_model(imports), limits=limits)

    def _without_model(self, imports: Sequence[str]) -> NewGoal:
        if self.flow is not None:
            return new_flow(self.flow, self.args, imports)
        if self.plan is not None:
            return of_plan(self.plan)
        return of_argv(self.argv) if self.argv is not None else of_command(self.shell or "", shell=True)  # noqa: S604 (requested by --shell)
