"""Optional packages: the requirements of an extra, and the command that installs them for this interpreter."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import requires
from importlib.util import find_spec


def install_command(extra: str, *further: str) -> str:
    """Return a command that installs what an extra needs, and further requirements, for this interpreter.

    The requirements are named, and not the extra: Perdure may come from a folder, and `pip install 'perdure[…]'` would
    then install another package of that name. The interpreter is named because the `pip` on the path may belong to
    another one. Environments that uv makes have no pip.
    """
    python = shlex.quote(sys.executable)
    wanted = " ".join(f"'{requirement}'" for requirement in (*_requirements(extra), *further))
    if find_spec("pip") is not None:
        return f"{python} -m pip install {wanted}"
    if shutil.which("uv") is not None:
        return f"uv pip install --python {python} {wanted}"
    return f"{python} -m ensurepip && {python} -m pip install {wanted}"


def _requirements(extra: str) -> Sequence[str]:
    """Return the requirements of an extra, from the metadata of the installed package."""
    marker = f"extra == '{extra}'"
    split = [requirement.partition(";") for requirement in requires("perdure") or ()]
    return [name.strip() for name, _, condition in split if condition.strip().replace('"', "'") == marker]
