"""The command line. `main` is what the program `perdure` calls."""

import os
import sys

from perdure import __version__


def main() -> None:
    """Answer `perdure --version` at once, without importing anything; hand the rest to the commands."""
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
    import signal

    try:
        _end_alike()
        from perdure.interfaces.cli.edge import run

        exit_code = run(arguments)
    except KeyboardInterrupt:
        exit_code = 130
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, signal.SIG_IGN)  # all is said and done: a late one changes nothing about how it ended
    sys.exit(exit_code)


def _end_alike() -> None:
    """Let SIGTERM and SIGHUP end us as Ctrl-C does, unless whoever started us has them ignored."""
    import signal

    for kind in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(kind) is signal.SIG_DFL:
            signal.signal(kind, signal.default_int_handler)
