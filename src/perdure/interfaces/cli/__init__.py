"""The command line. `main` is the entry point of the program `perdure`."""

import os
import sys

from perdure import __version__


def main() -> None:
    """Print the version without importing anything, or run a command."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        os.write(1, f"perdure {__version__}\n".encode())
        return
    if sorted(arguments) == ["--json", "--version"]:
        os.write(1, f'{{"version": "{__version__}"}}\n'.encode())
        return
    if os.name == "nt":
        print("Perdure runs on Linux and macOS; on Windows, use it inside WSL.", file=sys.stderr)
        sys.exit(2)
    from perdure.interfaces.cli import signals

    try:
        signals.end_like_interrupt()
        from perdure.interfaces.cli.errors import run

        exit_code = run(arguments)
    except KeyboardInterrupt:
        exit_code = signals.interrupted_code()
    signals.leave_soon(exit_code)
    sys.exit(exit_code)
