"""The floor: a line of JSON, one write and one flush for each record."""

import json
import os

from bench.peers.program import Asked, run
from bench.peers.remembering import adds, fill


def _opened(asked: Asked) -> int:
    return os.open(f"{asked.folder}/raw", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def _add(fd: int, record: object) -> None:
    os.write(fd, json.dumps(record).encode() + b"\n")
    os.fdatasync(fd)


def _adds(asked: Asked) -> float:
    fd = _opened(asked)
    return adds(asked, lambda record: _add(fd, record))


def _fill(asked: Asked) -> None:
    fd = _opened(asked)
    fill(asked, lambda record: _add(fd, record))


if __name__ == "__main__":
    run({"adds": _adds, "fill": _fill}, "")
