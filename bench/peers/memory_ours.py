"""Perdure: records of its memory, each checked for duplicates and durable when the call returns."""

from contextlib import nullcontext
from pathlib import Path

from bench.peers.program import Asked, run
from bench.peers.remembering import adds, fill, find, lost, refused, together
from perdure import read_records
from perdure.memory.memory import Memory


def _memory(asked: Asked) -> Memory:
    return Memory(Path(asked.folder) / "state")


def _adds(asked: Asked) -> float:
    return adds(asked, _memory(asked).add)


def _together(asked: Asked) -> set[str]:
    return together(asked, lambda: nullcontext(_memory(asked).add))


def _lost(asked: Asked) -> float:
    told = _together(asked)
    return lost(told, {record["id"] for record in read_records(_memory(asked).files.log)})


def _refused(asked: Asked) -> float:
    return refused(asked, _together(asked))


def _fill(asked: Asked) -> None:
    fill(asked, _memory(asked).add)


def _find(asked: Asked) -> float:
    memory = _memory(asked)
    return find(asked, lambda record: len(memory.related(fingerprint=record["fingerprint"])["matches"]))


if __name__ == "__main__":
    run({"adds": _adds, "lost": _lost, "refused": _refused, "fill": _fill, "find": _find}, "perdure")
