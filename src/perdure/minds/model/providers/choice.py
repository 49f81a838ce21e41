"""Which model a goal has, and which packages are installed to ask it."""

from importlib.util import find_spec

from perdure import extras
from perdure.errors import Invalid, Unavailable
from perdure.minds.model.providers.names import BUILT_IN, VENDORS, ModelName, parse_model_name
from perdure.model_settings import ModelDefaults

PACKAGES = {
    "models": ("pydantic_ai", "openai"),
    "anthropic": ("pydantic_ai", "anthropic"),
    "google": ("pydantic_ai", "google.genai"),
    "local": ("pydantic_ai", "openai", "xllamacpp"),
}
"""What each extra installs, by the names that are imported."""


class NoModel(Unavailable):
    """A goal needs a model, and none is configured."""

    def __init__(self, instead: str = "") -> None:
        """`instead` says what can be done without a model."""
        super().__init__(
            "No model is configured. `perdure model list` shows the providers; set one:"
            f" perdure model default PROVIDER:NAME{instead}"
        )


def choose_model(settings: ModelDefaults, *, given: str | None = None, of_bot: str | None = None) -> ModelName:
    """Return the model of a new goal: the one that is given, else that of its bot, else the default.

    A bot whose model is `builtin` leaves the choice to the default.

    Raises: NoModel when nothing names one; Invalid when a name is not one.
    """
    for name in (given, None if of_bot == BUILT_IN else of_bot, settings.default):
        if name is not None and (chosen := parse_model_name(name)).provider != BUILT_IN:
            return chosen
    raise NoModel


def is_installed(model: ModelName) -> bool:
    """Return whether the packages for a model are installed, without importing them."""
    packages = PACKAGES[model.extra]
    return all(_is_found(package) for package in packages)


def require_provider(model: ModelName) -> None:
    """Check that the provider of a model exists; without the packages of models only its name can be checked.

    Raises: Invalid, with the providers that Perdure knows itself.
    """
    if model.provider in VENDORS or model.url is not None:
        return
    try:
        from perdure.minds.model.providers.requests.vendors import is_known
    except ImportError:
        return
    if not is_known(model.provider):
        raise unknown_provider(model.provider)


def unknown_provider(name: str) -> Invalid:
    """Return the error for a provider that does not exist."""
    known = ", ".join([*VENDORS, "openai-compatible"])
    return Invalid(f"Unknown provider {name[:60]!r}. Providers: {known}; `perdure model list` shows a model of each.")


def install_command(model: ModelName) -> str:
    """Return the command that installs what is needed to ask a model."""
    is_known = model.provider in VENDORS or model.url is not None
    further = () if is_known else (f"pydantic-ai-slim[{model.provider}]",)
    return extras.install_command(model.extra, *further)


def _is_found(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False
