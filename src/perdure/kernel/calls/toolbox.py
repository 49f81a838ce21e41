"""The tools of one run of a goal by name, from all its sources."""

import logging
from collections.abc import Iterator, Mapping, Sequence

from perdure.errors import Invalid, PerdureError
from perdure.kernel.deciding.kernel_tools import KERNEL_TOOLS
from perdure.kernel.tool import Tool, ToolSource

log = logging.getLogger(__name__)


class StaticTools:
    """A source of tools that are known from the start. See ToolSource."""

    def __init__(self, name: str, tools: Sequence[Tool]) -> None:
        self.name = name
        self.tools = tuple(tools)

    async def open(self) -> None:
        """See ToolSource.open."""

    async def list(self) -> Sequence[Tool]:
        """See ToolSource.list."""
        return self.tools

    async def close(self) -> None:
        """See ToolSource.close."""


class Toolbox(Mapping[str, Tool]):
    """The tools of some sources; empty until it is opened."""

    def __init__(self, sources: Sequence[ToolSource] = ()) -> None:
        self._sources = tuple(sources)
        self._opened: list[ToolSource] = []
        self._tools: dict[str, Tool] = {}
        self._source_names: dict[str, str] = {}

    @classmethod
    def of(cls, *tools: Tool) -> "Toolbox":
        """Return the toolbox of some existing tools."""
        return cls([StaticTools("given", tools)])

    async def open(self) -> None:
        """Open all sources in order.

        Raises: Invalid when two sources have a tool of one name, or one has the name of a tool of the kernel;
        Unavailable when a source cannot be opened. `close` closes those that were opened.
        """
        for source in self._sources:
            self._opened.append(source)
            await source.open()
            for tool in await source.list():
                self._add(tool, source)

    async def close(self) -> None:
        """Close the open sources in reverse order. An error of one source is logged, and the others are closed."""
        self._tools.clear()
        self._source_names.clear()
        while self._opened:
            source = self._opened.pop()
            try:
                await source.close()
            except (PerdureError, OSError) as error:
                log.warning("closing the tools of %s failed: %s", source.name, error)

    def _add(self, tool: Tool, source: ToolSource) -> None:
        name = tool.spec.name
        if name in self._tools or name in KERNEL_TOOLS:
            raise Invalid(f"Two tools have the name {name!r}; one is of {source.name}. Rename it there.")
        self._tools[name] = tool
        self._source_names[name] = source.name

    def source_of(self, name: str) -> str:
        """Return the name of the source that a tool comes from; `kernel` for a tool of the kernel."""
        return self._source_names.get(name, "kernel")

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)
