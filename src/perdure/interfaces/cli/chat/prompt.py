"""The line that a person types: Enter sends, Alt-Enter or a backslash at the end breaks the line."""

import contextlib
import os
import sys
import termios
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def silent_keys() -> Iterator[None]:
    """Do not echo what is typed within the block, which the next prompt reads: it would garble an answer."""
    if not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(descriptor, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


class Prompt:
    """Reads messages on a terminal, with a history for the time of the conversation."""

    def __init__(self) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.output.vt100 import Vt100_Output

        output = Vt100_Output.from_pty(sys.stderr, term=os.environ.get("TERM"))
        output.enable_cpr = False  # some terminals do not answer
        keys = KeyBindings()

        @keys.add("escape", "enter")
        def _break(event: Any) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("enter")
        def _send(event: Any) -> None:
            buffer = event.current_buffer
            if buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        self._session: PromptSession[str] = PromptSession(multiline=True, key_bindings=keys, output=output)

    async def read(self, prompt: str) -> str:
        """Return what is typed.

        Raises: KeyboardInterrupt at Ctrl-C; EOFError at Ctrl-D.
        """
        sys.stdout.flush()
        return await self._session.prompt_async(prompt, prompt_continuation="… ")
