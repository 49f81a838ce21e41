"""mem0: memories that are added without a model, in its local Qdrant and SQLite; a sum of words stands for a model."""

# mypy: disable-error-code="import-not-found"
# (it is installed only where this program runs)

import os
from contextlib import nullcontext
from hashlib import blake2b
from typing import Any

from bench.peers.program import Asked, run
from bench.peers.remembering import WRITERS, Add, adds, fill, find, lost, refused, together

_USER = "bench"
_SIZE = 64


class _Words:
    """Makes a vector of a text: each word counts in one place."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def embed(self, text: str, *_args: object, **_options: object) -> list[float]:
        found = [0.0] * _SIZE
        for word in text.lower().split():
            found[blake2b(word.encode(), digest_size=1).digest()[0] % _SIZE] += 1.0
        size = sum(each * each for each in found) ** 0.5 or 1.0
        return [each / size for each in found]

    def embed_batch(self, texts: list[str], *_args: object, **_options: object) -> list[list[float]]:
        return [self.embed(text) for text in texts]


def _memory(asked: Asked) -> Any:
    os.environ.update(OPENAI_API_KEY="none", MEM0_TELEMETRY="False", MEM0_DIR=f"{asked.folder}/home")
    from mem0 import Memory

    store = {"path": f"{asked.folder}/qdrant", "on_disk": True, "embedding_model_dims": _SIZE}
    memory = Memory.from_config(
        {"vector_store": {"provider": "qdrant", "config": store}, "history_db_path": f"{asked.folder}/history.db"}
    )
    memory.embedding_model = _Words(memory.embedding_model.config)
    return memory


def _adding(memory: Any) -> Add:
    def add(record: dict[str, Any]) -> None:
        text = f"{record['title']} {record['summary']}"
        memory.add(text, user_id=_USER, infer=False, metadata=record)

    return add


def _adds(asked: Asked) -> float:
    return adds(asked, _adding(_memory(asked)))


def _together(asked: Asked) -> set[str]:
    return together(asked, lambda: nullcontext(_adding(_memory(asked))))


def _lost(asked: Asked) -> float:
    told = _together(asked)
    client = _memory(asked).vector_store.client
    [collection] = [each.name for each in client.get_collections().collections if each.name == "mem0"]
    points, _more = client.scroll(collection, limit=WRITERS * asked.n + 1)
    return lost(told, {point.payload["id"] for point in points})


def _refused(asked: Asked) -> float:
    return refused(asked, _together(asked))


def _fill(asked: Asked) -> None:
    memory = _memory(asked)
    fill(asked, _adding(memory))
    memory.vector_store.client.close()


def _find(asked: Asked) -> float:
    memory = _memory(asked)

    def look(record: dict[str, Any]) -> int:
        wanted = {"user_id": _USER, "fingerprint": record["fingerprint"]}
        return len(memory.search(record["title"], filters=wanted, top_k=10, threshold=0.0)["results"])

    return find(asked, look)


if __name__ == "__main__":
    run({"adds": _adds, "lost": _lost, "refused": _refused, "fill": _fill, "find": _find}, "mem0ai")
