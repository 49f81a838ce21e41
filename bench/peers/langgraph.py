"""Steps as rounds of a LangGraph of one node, with its SQLite checkpointer; each is durable before the next."""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"
# (it is installed only where this program runs)

import json
import sys
import time
from importlib.metadata import version
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from bench.peers.step import payload


class State(TypedDict):
    """The newest step alone, which is the least that a graph can keep."""

    done: int
    wanted: int
    body: dict[str, object]


def one_step(state: State) -> dict[str, object]:
    return {"done": state["done"] + 1, "body": payload(state["done"])}


def main(folder: str, n: int) -> None:
    graph = StateGraph(State)
    graph.add_node("step", one_step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["done"] < state["wanted"] else END)
    with SqliteSaver.from_conn_string(f"{folder}/goals.db") as saver:
        saver.setup()
        program = graph.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "goal"}, "recursion_limit": n + 10}
        start = time.perf_counter()
        program.invoke({"done": 0, "wanted": n, "body": {}}, config, durability="sync")
        spent = time.perf_counter() - start
    print(json.dumps({"version": version("langgraph"), "step_us": spent / n * 1e6}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
