"""How long the long tests run: a little in the suite, as long as asked for by `make torture N=…`."""

import os


def torture_size(*, small: int) -> int:
    """The number of rounds: `small` in the suite, N under `make torture`."""
    return int(os.environ.get("PERDURE_TORTURE", small))
