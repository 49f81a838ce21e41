"""Sets the default model in `config.toml`, and keeps the rest of the file."""

from pathlib import Path
from typing import Any

from perdure.errors import Invalid, from_os_error
from perdure.filelock.lock import FileLock
from perdure.files.atomic import write_atomic
from perdure.files.folders import ensure_folder
from perdure.minds.model.providers.choice import require_provider
from perdure.minds.model.providers.names import BUILT_IN, parse_model_name
from perdure.settings import CONFIG_FILE, MODEL_TABLE, Settings, load_settings


def set_default_model(settings: Settings, name: str) -> str:
    """Set the default model, and return its name. Comments and order of the file are kept.

    Raises: Invalid when it is not the name of a model, or its provider does not exist; Denied
    """
    model = parse_model_name(name)
    if model.provider == BUILT_IN:
        raise Invalid(f"{BUILT_IN!r} is not a model that goals can ask. `perdure model list` shows some that are.")
    require_provider(model)
    home = settings.home
    ensure_folder(home)
    with FileLock(home / f"{CONFIG_FILE}.lock"):
        load_settings({"home": str(home)})  # an invalid file is not changed
        path = (home / CONFIG_FILE).resolve()  # a symbolic link is kept
        try:
            write_atomic(path, _with_default(_read(path), model.text).encode(), keeps_mode=True)
        except OSError as error:
            raise from_os_error(f"{path} cannot be written", error) from error
    return model.text


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _with_default(text: str, name: str) -> str:
    import tomlkit

    document: Any = tomlkit.parse(text)
    if MODEL_TABLE not in document:
        document[MODEL_TABLE] = tomlkit.table()
    document[MODEL_TABLE]["default"] = name
    return tomlkit.dumps(document)
