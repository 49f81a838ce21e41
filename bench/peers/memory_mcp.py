"""The MCP memory server: entities of its knowledge graph, asked for over its standard input; a process of Node each."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.environments import installed_for_node
from bench.memory_beside import MCP_PACKAGES
from bench.peers.program import Asked, works
from bench.peers.remembering import Add, adds, fill, find, lost, refused, together

_MODULE = "memory_mcp"


def _package() -> Path:
    return installed_for_node(_MODULE, MCP_PACKAGES) / MCP_PACKAGES[0]


class _Server:
    """One server."""

    def __init__(self, asked: Asked) -> None:
        self._process = subprocess.Popen(
            ["node", str(_package() / "dist" / "index.js")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "MEMORY_FILE_PATH": str(_file(asked))},
        )
        self._asked = 0
        about = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self._ask("initialize", about)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def add(self, record: dict[str, Any]) -> None:
        entity = {"name": record["id"], "entityType": record["type"], "observations": [json.dumps(record)]}
        self._call("create_entities", {"entities": [entity]})

    def find(self, record: dict[str, Any]) -> int:
        answer = self._call("search_nodes", {"query": record["fingerprint"]})
        return len(json.loads(answer["content"][0]["text"])["entities"])

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _call(self, tool: str, arguments: dict[str, Any]) -> Any:
        answer = self._ask("tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"{tool} was refused: {answer}")
        return answer["result"]

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        self._asked += 1
        self._send({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
        if self._process.stdout is None:
            raise RuntimeError("the server has no output")
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._asked:
                return answer
        raise RuntimeError("the server has ended")

    def _send(self, message: dict[str, Any]) -> None:
        if self._process.stdin is None:
            raise RuntimeError("the server has no input")
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


def _file(asked: Asked) -> Path:
    return Path(asked.folder) / "graph.jsonl"


@contextmanager
def _served(asked: Asked) -> Iterator[_Server]:
    server = _Server(asked)
    try:
        yield server
    finally:
        server.end()


@contextmanager
def _adding(asked: Asked) -> Iterator[Add]:
    with _served(asked) as server:
        yield server.add


def _adds(asked: Asked) -> float:
    with _adding(asked) as add:
        return adds(asked, add)


def _together(asked: Asked) -> set[str]:
    return together(asked, lambda: _adding(asked))


def _lost(asked: Asked) -> float:
    told = _together(asked)
    kept = set()
    for line in _file(asked).read_text().splitlines():
        try:
            kept.add(json.loads(line)["name"])
        except ValueError:
            continue
    return lost(told, kept)


def _refused(asked: Asked) -> float:
    return refused(asked, _together(asked))


def _fill(asked: Asked) -> None:
    with _adding(asked) as add:
        fill(asked, add)


def _find(asked: Asked) -> float:
    with _served(asked) as server:
        return find(asked, server.find)


if __name__ == "__main__":
    known = json.loads((_package() / "package.json").read_text())["version"]
    works({"adds": _adds, "lost": _lost, "refused": _refused, "fill": _fill, "find": _find}, lambda: known)
