"""Others who keep what agents remember, doing the same work in the same run."""

from bench.compared import Case, Contender, Contest

MCP_PACKAGES = ("@modelcontextprotocol/server-memory",)

_NONE = "none"

FLOOR = Contender("floor", "memory_floor", leaves_out={"lost": _NONE, "refused": _NONE, "find": _NONE})
OURS = Contender("Perdure", "memory_ours")
PEERS = (
    Contender("MCP memory server", "memory_mcp", MCP_PACKAGES, is_for_node=True),
    Contender("mem0", "memory_mem0", ("mem0ai",)),
    Contender("LangGraph SqliteStore", "memory_langgraph", ("langgraph", "langgraph-checkpoint-sqlite")),
)
CASES = (
    Case("adds, one writer", "adds", "disk", 200, "/s", 3, more_is_better=True),
    Case("lost of 400 adds by four writers", "lost", "disk", 100, "", 3),
    Case("not acknowledged of these", "refused", "disk", 100, "", 3),
    Case("look-up by fingerprint among 1,000", "find", "tmpfs", 20, "ms", 3, prepared_by=("fill", 1000)),
)
MEMORY = Contest(CASES, FLOOR, OURS, PEERS)
