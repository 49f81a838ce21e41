"""What every source of tools does: it is opened, lists its tools, runs their calls, and is closed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from perdure import Invalid, Unavailable
from perdure.kernel.calls.toolbox import StaticTools, Toolbox
from perdure.kernel.events import MindSpec, Termination, ToolCall, ToolOutput
from perdure.kernel.mind import Proposal
from perdure.kernel.tool import CallContext, Check, Tool, ToolSource, ToolSpec
from perdure.store.goals.memory_state_store import InMemoryStateStore
from perdure.tools.files import ReadFileTool
from tests.kernel.world import ScriptedMind, World


@dataclass
class EchoTool:
    """Answers with its arguments, as long as its source is open."""

    source: "EchoServer"
    spec: ToolSpec

    def validate(self, arguments: Mapping[str, Any]) -> None:
        if not isinstance(arguments.get("path"), str):
            raise Invalid("path must be a text.")

    async def run(self, context: CallContext) -> ToolOutput:
        if not self.source.is_open:
            raise Unavailable("The server is not connected.")
        return ToolOutput(context.call.call_id, output=dict(context.call.arguments))

    async def check(self, context: CallContext) -> Check:  # noqa: ARG002 (as the port says)
        return "unknown"

    async def reap(self, goal_id: str, call_id: str) -> None:
        pass


@dataclass
class EchoServer:
    """A source whose tools are known only when it is open, as those of a server."""

    name: str = "echo"
    tool_name: str = "echo.say"
    is_open: bool = False
    is_broken: bool = False
    opened: list[bool] = field(default_factory=list)

    async def open(self) -> None:
        if self.is_broken:
            raise Unavailable("The server cannot be started.")
        self.is_open = True
        self.opened.append(True)

    async def list(self) -> Sequence[Tool]:
        if not self.is_open:
            raise Unavailable("The server is not connected.")
        return [EchoTool(self, ToolSpec(self.tool_name, "Says it again.", {"type": "object"}, "pure"))]

    async def close(self) -> None:
        if self.is_open:
            self.opened.append(False)
        self.is_open = False


SOURCES: list[Callable[[], ToolSource]] = [lambda: StaticTools("files", [ReadFileTool()]), EchoServer]


@pytest.mark.parametrize("make", SOURCES, ids=["static", "server"])
async def test_a_source_is_opened_listed_called_and_closed(make: Callable[[], ToolSource], tmp_path: Path) -> None:
    source = make()
    (tmp_path / "a").write_text("hello")
    for _ in range(2):  # a source can be opened again
        await source.open()
        tools = await source.list()
        assert len({tool.spec.name for tool in tools}) == len(tools) > 0
        for tool in tools:
            call = ToolCall("a.1", "a", tool.spec.name, {"path": "a"}, tool.spec.effect)
            tool.validate(call.arguments)
            assert (await tool.run(CallContext("g", call, str(tmp_path)))).ok
        await source.close()
    await source.close()
    assert source.name


async def test_a_toolbox_has_the_tools_of_all_its_sources_while_it_is_open() -> None:
    toolbox = Toolbox([factory() for factory in SOURCES])
    assert not toolbox
    await toolbox.open()
    assert sorted(toolbox) == ["echo.say", "read_file"]
    assert toolbox["read_file"].spec.effect == "pure"
    await toolbox.close()
    assert not toolbox


@pytest.mark.parametrize("name", ["read_file", "ask", "done"])
async def test_a_source_cannot_take_the_name_of_another_tool(name: str) -> None:
    toolbox = Toolbox([SOURCES[0](), server := EchoServer(tool_name=name)])
    with pytest.raises(Invalid, match=f"the name '{name}'; one is of echo"):
        await toolbox.open()
    await toolbox.close()
    assert server.opened == [True, False]


class Deaf(EchoServer):
    async def close(self) -> None:
        await super().close()
        raise Unavailable("It does not answer.")


async def test_a_source_that_cannot_be_closed_keeps_no_other_open() -> None:
    first, second = EchoServer(tool_name="a"), Deaf(tool_name="b")
    toolbox = Toolbox([first, second])
    await toolbox.open()
    await toolbox.close()
    assert not first.is_open
    assert not second.is_open


def world_with(*sources: ToolSource) -> World:
    dead: set[str] = set()
    store = InMemoryStateStore(is_dead=dead.__contains__)
    return World(store, store, dead=dead, sources=sources)


async def test_the_loop_opens_its_sources_calls_their_tools_and_closes_them() -> None:
    server = EchoServer()
    world = world_with(server)
    call = ToolCall("a.1", "a", "echo.say", {"path": "x"}, "once", by="model:test")
    world.minds.append(ScriptedMind([Proposal([call]), Proposal(end=Termination("done"))]))
    ran = await world.start(MindSpec("flow"))
    outcome = ran.state.calls["a.1"].outcome
    assert outcome is not None
    assert (ran.state.status, outcome.output) == ("done", {"path": "x"})
    assert server.opened == [True, False]


async def test_a_source_that_cannot_be_opened_ends_the_run_and_closes_the_others() -> None:
    server = EchoServer()
    world = world_with(server, EchoServer("broken", "b", is_broken=True))
    world.minds.append(ScriptedMind([Proposal(end=Termination("done"))]))
    with pytest.raises(Unavailable, match="cannot be started"):
        await world.start(MindSpec("flow"))
    assert server.opened == [True, False]
