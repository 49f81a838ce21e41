"""The key of a provider: from the environment, else from the secrets of the home."""

from collections.abc import Mapping
from typing import Protocol

from perdure.minds.model.providers.names import ModelName
from perdure.model_settings import ModelDefaults


class Secrets(Protocol):
    """The secrets of a home, by name."""

    def read(self, name: str) -> str | None:
        """Return a secret; None when there is none.

        Raises: Denied when it cannot be read.
        """
        ...


class Keys:
    """Finds the key for each request, so that a login or rotation takes effect at once."""

    def __init__(self, settings: ModelDefaults, environment: Mapping[str, str], secrets: Secrets) -> None:
        self._settings = settings
        self._environment = environment
        self._secrets = secrets

    def names(self, model: ModelName) -> tuple[str, ...]:
        """Return the names that the key of a model may have; the first is the one that a login stores it under."""
        own = self._settings.table(model.text).api_key
        return model.key_names if own is None else (own,)

    def find(self, model: ModelName) -> str | None:
        """Return the key for a model, or None.

        Raises: Denied when a stored key cannot be read.
        """
        return self._value(model)[1]

    def origin(self, model: ModelName) -> str | None:
        """Return where the key of a model comes from, as it may be shown; None when there is none.

        Raises: Denied when a stored key cannot be read.
        """
        return self._value(model)[0]

    def _value(self, model: ModelName) -> tuple[str | None, str | None]:
        names = self.names(model)
        for name in names:
            if given := self._environment.get(name, "").strip():
                return f"environment {name}", given
        for name in names:
            if (stored := self._secrets.read(name)) is not None:
                return f"secret:{name}", stored
        return None, None
