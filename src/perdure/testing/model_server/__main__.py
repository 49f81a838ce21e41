"""`python -m perdure.testing.model_server SCRIPT`: serve a script until the process is ended."""

import argparse
import signal
import sys
from pathlib import Path

from perdure.errors import PerdureError
from perdure.testing.model_server.script import read_script
from perdure.testing.model_server.server import ModelServer


def main() -> int:
    """Serve, print the URL on the first line, and wait for a signal."""
    parser = argparse.ArgumentParser(prog="python -m perdure.testing.model_server", description=__doc__)
    parser.add_argument("script", type=Path, help="a JSON file with the answers")
    parser.add_argument("--port", type=int, default=0, help="the port of 127.0.0.1 (default: a free one)")
    parser.add_argument("--repeat", action="store_true", help="give the last answer again when no other is left")
    options = parser.parse_args()
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # before the thread starts, which inherits it
    try:
        with ModelServer(read_script(options.script, repeats=options.repeat), port=options.port) as server:
            print(server.url, flush=True)  # noqa: T201 (what a caller reads)
            signal.sigwait(signals)
    except PerdureError as error:
        print(error, file=sys.stderr)  # noqa: T201 (same)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
