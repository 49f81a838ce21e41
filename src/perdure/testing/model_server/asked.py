"""What the server understands of a request, whichever protocol it came by."""

from dataclasses import dataclass, replace

from perdure.testing.model_server.answers import ScriptedAnswer, ScriptedCall, ScriptedUsage

_BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Asked:
    """One request."""

    model: str
    is_streamed: bool
    last_user: str
    """The text of the last message of a user."""
    turns: int
    """How many answers of a model the request contains."""
    turns_since_user: int
    """How many of them come after the last message of a user."""
    tools: tuple[str, ...] = ()
    output_tool: str | None = None
    """The tool that the request requires to be called, if it requires one."""
    has_schema: bool = False
    """Whether the answer must be JSON that conforms to a schema."""
    size_bytes: int = 0


def fitted(answer: ScriptedAnswer, asked: Asked) -> ScriptedAnswer:
    """Return the turn with structured data in the form that the request asks for, and with counted tokens."""
    if answer.data is not None:
        content = ScriptedCall("", answer.data).arguments_text
        if asked.has_schema or asked.output_tool is None:
            answer = replace(answer, data=None, text=content)
        else:
            answer = replace(answer, data=None, calls=(ScriptedCall(asked.output_tool, content),))
    if answer.usage is None:
        answer = replace(answer, usage=_counted(answer, asked))
    return answer


def _counted(answer: ScriptedAnswer, asked: Asked) -> ScriptedUsage:
    said = answer.text + answer.thinking + "".join(call.name + call.arguments_text for call in answer.calls)
    return ScriptedUsage(
        input=_tokens(asked.size_bytes),
        output=_tokens(len(said.encode(errors="surrogatepass"))),
        reasoning=_tokens(len(answer.thinking)),
    )


def _tokens(size: int) -> int:
    return -(-size // _BYTES_PER_TOKEN)
