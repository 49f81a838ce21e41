"""The policy for the calls of models: that of new goals from the settings, and as it is shown."""

from perdure.errors import Invalid
from perdure.kernel.events import PolicySpec
from perdure.settings import CONFIG_FILE, Settings
from perdure.tools.goal_policy import read_policy


def default_policy(settings: Settings) -> PolicySpec | None:
    """Return the policy that the settings have for new goals.

    Raises: Invalid when they name an unknown preset or rule.
    """
    try:
        return read_policy(settings.policy)
    except Invalid as error:
        path = settings.home / CONFIG_FILE
        raise Invalid(f"{error.detail} Correct the settings policy.preset and policy.rules ({path}).") from error
