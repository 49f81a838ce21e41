"""How a conversation looks: answers as Markdown while they arrive, a line for each call, notices on standard error."""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from perdure.interfaces.cli.output.terminal import cut_to, lines, one_line, value_text

if TYPE_CHECKING:
    from rich.live import Live

    from perdure.app.wire.resources import frames as wire

_LONGEST_CALL = 100
_FENCE = "```"


class Display(Protocol):
    """What is shown of an answer."""

    def begin(self) -> None:
        """Note that an answer arrives."""
        ...

    def waiting(self, text: str) -> None:
        """Show what is waited for, until something else is shown."""
        ...

    def text(self, so_far: str) -> None:
        """Show the text of the answer so far."""
        ...

    def reset(self) -> None:
        """Remove what is drawn of an answer that broke off; the cursor is shown again."""
        ...

    def end(self, text: str) -> None:
        """Show the whole text of an answer that is recorded."""
        ...

    def call(self, text: str) -> None:
        """Show a line about a call."""
        ...

    def notice(self, text: str) -> None:
        """Show something about the conversation itself."""
        ...


class PlainDisplay:
    """Prints each answer when it is recorded: for files, pipes and one message."""

    def begin(self) -> None:
        """See Display.begin."""

    def waiting(self, text: str) -> None:
        """See Display.waiting."""

    def text(self, so_far: str) -> None:
        """See Display.text."""

    def reset(self) -> None:
        """See Display.reset."""

    def end(self, text: str) -> None:
        """See Display.end."""
        if text:
            print(lines(text), flush=True)

    def call(self, text: str) -> None:
        """See Display.call."""
        print(text, file=sys.stderr, flush=True)

    def notice(self, text: str) -> None:
        """See Display.notice."""
        print(lines(text), file=sys.stderr, flush=True)


class SilentDisplay(PlainDisplay):
    """Prints nothing: programs read the result."""

    def end(self, text: str) -> None:
        """See Display.end."""

    def call(self, text: str) -> None:
        """See Display.call."""


def print_frame(frame: "wire.GoalFrame") -> None:
    """Print a frame of the socket as one line of JSON, which escapes all that a terminal could interpret."""
    print(json.dumps(frame), flush=True)


class RichDisplay:
    """Shows answers as Markdown while they arrive.

    Paragraphs that are complete are printed once and scroll away; only the last one is drawn again with each piece.
    """

    def __init__(self, *, is_interactive: bool) -> None:
        """Write where prompts are, if there are any: on standard error."""
        from rich.console import Console

        self._console = Console(stderr=is_interactive, highlight=False)
        self._is_interactive = is_interactive
        self._live: Live | None = None
        self._printed = 0

    def begin(self) -> None:
        """See Display.begin."""
        self._printed = 0

    def waiting(self, text: str) -> None:
        """See Display.waiting."""
        if self._is_interactive:
            self._draw(_dim(text))

    def text(self, so_far: str) -> None:
        """See Display.text."""
        self._print_complete(so_far)
        rest = so_far[self._printed :]
        if rest.strip():
            self._draw(_markdown(rest))

    def reset(self) -> None:
        """See Display.reset."""
        self._stop_live()
        self._printed = 0

    def end(self, text: str) -> None:
        """See Display.end."""
        rest = text[self._printed :]
        self._stop_live()
        if rest.strip():
            self._console.print(_markdown(rest))
        if text.strip():
            self._console.print()
        self._printed = 0

    def call(self, text: str) -> None:
        """See Display.call."""
        self._stop_live()
        self._console.print(text, style="dim", markup=False)

    def notice(self, text: str) -> None:
        """See Display.notice."""
        self._stop_live()
        self._console.print(lines(text), style="yellow", markup=False)

    def _print_complete(self, text: str) -> None:
        """Print the paragraphs that are complete."""
        end = _complete(text, self._printed)
        if end > self._printed:
            self._stop_live()
            self._console.print(_markdown(text[self._printed : end]))
            self._console.print()
            self._printed = end

    def _draw(self, drawn: Any) -> None:
        from rich.live import Live

        if self._live is None:
            self._live = Live(
                console=self._console, transient=True, refresh_per_second=12, vertical_overflow="ellipsis"
            )
            self._live.start()
        self._live.update(drawn)

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def _complete(text: str, begun: int) -> int:
    """Return where the last complete paragraph ends: at a blank line that is not inside of a block of code."""
    place, end = begun, begun
    while (found := text.find("\n\n", place)) >= 0:
        place = found + 2
        if text.count(_FENCE, begun, place) % 2 == 0:
            end = place
    return end


def _dim(text: str) -> Any:
    from rich.text import Text

    return Text(lines(text), style="dim")


def _markdown(text: str) -> Any:
    from rich.markdown import Markdown

    return Markdown(lines(text), hyperlinks=False)


def call_line(tool: str, arguments: Mapping[str, Any] | None, outcome: str) -> str:
    """Return one line about a call: what became of it, its tool and its arguments."""
    given = " ".join(f"{name}={value_text(value)}" for name, value in (arguments or {}).items())
    return cut_to(one_line(f"{outcome} {tool} {given}".strip()), _LONGEST_CALL)
