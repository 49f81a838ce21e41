"""The engines of interviews in a home: the built-in one, and a model if one is configured."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from perdure.errors import Invalid
from perdure.forge.interview.engine import BuilderEngine, BuiltinEngine
from perdure.forge.llm.agent import LlmBuilderAgent, ModelChoice
from perdure.forge.state import BuilderState
from perdure.forge.vocabulary import EngineName
from perdure.minds.model.providers.choice import NoModel, choose_model
from perdure.model_settings import ModelDefaults

if TYPE_CHECKING:
    from perdure.minds.model.ports import ModelClient

ENGINES: tuple[EngineName, ...] = ("builtin", "model")
_NOT_CONFIGURED = "No model is configured any more, so the built-in interviewer asks."


class Engines:
    """Chooses the engine of an interview. A session keeps its engine until an answer names the other one."""

    def __init__(
        self,
        defaults: ModelDefaults | None = None,
        client: "Callable[[], ModelClient] | None" = None,
        *,
        builtin: BuilderEngine | None = None,
    ) -> None:
        self.builtin: BuilderEngine = BuiltinEngine() if builtin is None else builtin
        self._defaults = ModelDefaults() if defaults is None else defaults
        self._client = client
        self._model: BuilderEngine | None = None

    @property
    def default_model(self) -> str | None:
        """The default model, if one is configured."""
        try:
            return choose_model(self._defaults).text
        except (NoModel, Invalid):
            return None  # an invalid name is reported when the model is asked

    def choose(self, name: str | None) -> BuilderEngine:
        """Return the engine of a new interview: the wanted one, else the model if one is configured.

        Raises: Invalid when the engine does not exist; NoModel when `model` is wanted and none is configured.
        """
        if name is not None and name not in ENGINES:
            raise Invalid(f"Invalid engine: expected one of {', '.join(ENGINES)}, got {name[:40]!r}.")
        if name == "builtin":
            return self.builtin
        try:
            return self._model_engine()
        except NoModel:
            if name == "model":
                raise
            return self.builtin

    def choose_for_turn(self, state: BuilderState, name: str | None) -> tuple[BuilderEngine, str]:
        """Return the engine of the next turn of a session, and a note if it replaces another engine.

        Raises: as `chosen`, when an engine is wanted.
        """
        if name is not None:
            return self.choose(name), ""
        if state.engine == "builtin":
            return self.builtin, ""
        engine = self.choose(None)
        return engine, _NOT_CONFIGURED if engine is self.builtin else ""

    def _model_engine(self) -> BuilderEngine:
        """Return the engine of the default model.

        Raises: NoModel
        """
        name = choose_model(self._defaults).text
        if self._client is None:
            raise NoModel
        if self._model is None:
            self._model = LlmBuilderAgent(self._client(), ModelChoice(name, tuple(self._defaults.fallbacks)))
        return self._model
