"""The policy for calls of models: from callers, and the default from the settings."""

from perdure.errors import Invalid
from perdure.kernel.events import PolicySpec
from perdure.kernel.tool import Verdict
from perdure.settings import CONFIG_FILE, Settings
from perdure.tools.goal_policy import read_policy

__all__ = ["PolicySpec", "Verdict", "default_policy", "read_policy"]


def default_policy(settings: Settings) -> PolicySpec | None:
    """Return the default policy of new goals from the settings.

    Raises: Invalid when they name an unknown preset or rule.
    """
    try:
        return read_policy(settings.policy)
    except Invalid as error:
        path = settings.home / CONFIG_FILE
        raise Invalid(f"{error.detail} Correct the settings policy.preset and policy.rules ({path}).") from error
