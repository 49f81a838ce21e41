"""How an attempt fails: what it means, whether it is worth another one, and the command that fixes it."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from perdure.kernel.conversation.parts import FailureCode
from perdure.minds.model.providers.choice import install_command
from perdure.minds.model.providers.names import VENDORS, ModelName

_LONGEST_MESSAGE = 400


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that failed."""

    code: FailureCode
    message: str
    is_retryable: bool = False
    """Whether the same request may succeed later without anything being changed."""
    retry_after_s: float | None = None
    """When the provider asks to be asked again."""
    next: str | None = None
    """The command that fixes it."""


class AttemptFailed(Exception):
    """An attempt has failed; never leaves this folder."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def shown_message(text: str, key: str | None) -> str:
    """Return the message of a provider as it may be recorded: one line, of bounded length, without the key."""
    without = text if key is None else text.replace(key, "***")
    line = " ".join("".join(char if char.isprintable() else " " for char in without).split())
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[: _LONGEST_MESSAGE - 1]}…"


_RETRIED = frozenset({408, 409, 429})


def of_status(status: int, message: str, model: ModelName, retry_after_s: float | None) -> Failure:
    """Return the failure that an HTTP status means."""
    said = f"{model.text} answered with status {status}: {message}"
    if status in (401, 403):
        return Failure("auth", said, next=login_command(model))
    if status == 404:
        return Failure("rejected", said, next="perdure model list")
    if status == 429:
        return Failure("rate_limited", said, is_retryable=True, retry_after_s=retry_after_s)
    if status >= 500 or status in _RETRIED:
        return Failure("overloaded", said, is_retryable=True, retry_after_s=retry_after_s)
    return Failure("rejected", said, next=test_command(model))


def unreachable(model: ModelName, why: str, url: str | None = None) -> Failure:
    """Return the failure of a connection to the server at a URL that could not be made, or broke."""
    where = "" if url is None else f" at {_origin(url)}"
    message = f"{model.text} cannot be reached{where}: {why}"
    fix = "ollama serve" if model.provider == "ollama" else test_command(model)
    return Failure("unreachable", message, is_retryable=True, next=fix)


def _origin(url: str) -> str:
    """Return the host and port of a URL; a user and a password are not shown."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def cannot_load(model: ModelName, why: str) -> Failure:
    """Return the failure of a file that is not a model."""
    return Failure("rejected", f"{model.provider}: {why}.", next=test_command(model))


def broken(model: ModelName, why: str) -> Failure:
    """Return the failure of an answer that is not whole or not readable."""
    message = f"{model.text} sent an answer that is not complete: {why}"
    return Failure("unreachable", message, is_retryable=True, next=test_command(model))


def timed_out(model: ModelName, seconds: float, what: str) -> Failure:
    """Return the failure of an attempt that took too long."""
    message = f"{model.text} sent {what} within {seconds:g} s"
    return Failure("timeout", message, is_retryable=True, next=test_command(model))


def no_key(model: ModelName, names: tuple[str, ...]) -> Failure:
    """Return the failure of a request that has no key."""
    message = f"{model.text} needs a key. Set {names[0]} or store one."
    return Failure("auth", message, next=login_command(model))


def no_extra(model: ModelName) -> Failure:
    """Return the failure of a provider whose package is not installed."""
    needed = f"the extra {model.extra!r}" if model.provider in VENDORS or model.url is not None else "a package"
    message = f"{model.text} needs {needed}, which is not installed."
    return Failure("no_extra", message, next=install_command(model))


def login_command(model: ModelName) -> str:
    """Return the command that stores a key for a model."""
    return f"perdure model login {_argument(model)}"


def test_command(model: ModelName) -> str:
    """Return the command that tries a model."""
    return f"perdure model test {_quoted(model.text)}"


def _argument(model: ModelName) -> str:
    return _quoted(model.text) if model.url is not None else model.provider


def _quoted(text: str) -> str:
    plain = all(char.isalnum() or char in "-_.:/@" for char in text)
    return text if plain else "'" + text.replace("'", "'\\''") + "'"
