"""`perdure model`: lists and tests models, stores keys, and sets the default model."""

import getpass
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.app.models.default_model import set_default_model
from perdure.app.models.models import Models
from perdure.errors import Invalid
from perdure.interfaces.cli.command import AT_HOME, Options, command
from perdure.interfaces.cli.command_result import CommandResult, Table

if TYPE_CHECKING:
    from perdure.app.wire.resources.models import Model, ModelPrice, TestedModel

Name = Annotated[str, typer.Argument(help="A provider such as openai, or a model as provider:name.")]
Tried = Annotated[str | None, typer.Argument(help="The model, as provider:name (default: the default model).")]
Default = Annotated[str | None, typer.Argument(help="The model, as provider:name. Without it, show the default model.")]
_LONGEST_LINE = 8192


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, "list", server=AT_HOME)(list_models)
    command(app, "ls", server=AT_HOME)(list_models)
    command(app, "test", server=AT_HOME)(try_model)
    for fn in (login, logout, default):
        command(app, fn.__name__, server=AT_HOME)(fn)


async def list_models(options: Options) -> CommandResult:
    """List the configured models, and one example of each well-known provider. No provider is called."""
    models = Models(options.settings()).list()
    headers = ["model", "status", "from", "window", "USD per million tokens"]
    rows = [_row(model) for model in models]
    hints = list(dict.fromkeys(f"{each['name']}: {each['next']}" for each in models if each["next"]))
    return CommandResult(
        {"models": models}, [Table(headers, rows, whole=("model",)), *_indented("To add what is missing:", hints)]
    )


async def try_model(options: Options, name: Tried = None) -> CommandResult:
    """Send one short request to a model, to check its name, key and the network. It costs almost nothing."""
    found = await Models(options.settings()).test(name)
    return CommandResult(
        dict(found), [f"{found['name']} answered {found['text']!r} in {found['duration_ms']} ms.", _used(found)]
    )


async def login(options: Options, name: Name) -> CommandResult:
    """Store the key of a provider in this home. The key is read from a hidden prompt or standard input."""
    models = Models(options.settings())
    secret = models.key_name(name)
    models.login(name, _read_key(options, name))
    path = models.secrets.path(secret)
    said = [f"Stored the key of {name} as {path}, which only you can read. Backups do not contain it."]
    variable = models.variable_of(name)
    if variable is not None:
        said.append(f"The variable {variable} is set, and takes precedence over the stored key.")
    tried = next((model["name"] for model in models.list() if _is_meant(model, name)), None)
    if tried is not None:
        said += [*_indented("Try it, and make it the model of your goals:", _first_steps(tried))]
    return CommandResult({"name": name, "secret": secret, "path": str(path), "overridden_by": variable}, said)


async def logout(options: Options, name: Name) -> CommandResult:
    """Remove the stored key of a provider from this home."""
    models = Models(options.settings())
    secret = models.logout(name)
    variable = models.variable_of(name)
    said = [f"Removed the key of {name}."]
    if variable is not None:
        said.append(f"The variable {variable} is still set.")
    return CommandResult({"name": name, "secret": secret, "overridden_by": variable}, said)


async def default(options: Options, name: Default = None) -> CommandResult:
    """Show or set the default model of goals. It is written into `config.toml`."""
    settings = options.settings()
    if name is None:
        known = settings.models.default
        said = known or "No model is configured. Set one: perdure model default PROVIDER:NAME"
        return CommandResult({"default": known}, [said])
    chosen = set_default_model(settings, name)
    current = options.settings()
    said = f"Goals that name no model use {chosen} from now on."
    if current.models.default != chosen:
        said = f"{chosen} is in config.toml. The variable PERDURE_MODEL is set, and takes precedence."
    missing = next(model for model in Models(current).list() if model["name"] == current.models.default)
    hints = [] if missing["next"] is None else _indented(f"It needs {missing['missing']}:", [missing["next"]])
    return CommandResult({"default": current.models.default, "written": chosen}, [said, *hints])


def _row(model: "Model") -> list[str]:
    status = f"needs {model['missing']}"
    if model["ready"]:  # nothing was asked: a server that needs no key may not run
        status = "ready" if model["key"] is not None or model["provider"] == "gguf" else "needs no key"
    return [model["name"], status, model["source"], f"{model['context_window']:,}", _price(model["price"])]


def _price(price: "ModelPrice | None") -> str:
    return "unknown" if price is None else f"{price['input']:g} in, {price['output']:g} out"


def _used(found: "TestedModel") -> str:
    usage, cost = found["usage"], found["cost_usd"]
    price = "cost unknown" if cost is None else f"{cost:.6f} USD"
    return f"{usage['input']} tokens in, {usage['output']} out; {price}."


def _indented(title: str, lines: list[str]) -> list[str]:
    return [title, *(f"  {line}" for line in lines)] if lines else []


def _first_steps(model: str) -> list[str]:
    return [f"perdure model test {model}", f"perdure model default {model}"]


def _is_meant(model: "Model", name: str) -> bool:
    return model["name"] == name or model["provider"] == name


def _read_key(options: Options, name: str) -> str:
    """Read the key from a hidden prompt, or from the first line of standard input.

    Raises: Invalid when there is no key.
    """
    if sys.stdin.isatty() and options.no_input:
        raise Invalid(
            f"There is no terminal to ask for the key. Pass it on standard input: perdure model login {name} < FILE"
        )
    key = getpass.getpass(f"Key of {name} (not shown): ") if sys.stdin.isatty() else sys.stdin.readline(_LONGEST_LINE)
    if not key.strip():
        raise Invalid(f"The key for {name} is empty; nothing was stored.")
    return key
