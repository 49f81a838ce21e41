"""A request to the server, independent of its wire format."""

from dataclasses import dataclass, replace

from perdure.testing.model_server.answers import ScriptedAnswer, ScriptedCall, ScriptedUsage

_BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class IncomingRequest:
    """One request to a model."""

    model: str
    is_streamed: bool
    last_user: str
    """The text of the last message of a user."""
    turns: int
    """The number of answers of a model in the request."""
    turns_since_user: int
    """The number of those after the last message of a user."""
    tools: tuple[str, ...] = ()
    output_tool: str | None = None
    """The tool that the request requires to be called, if it requires one."""
    has_schema: bool = False
    """Whether the answer must be JSON that conforms to a schema."""
    size_bytes: int = 0


def adapt(answer: ScriptedAnswer, request: IncomingRequest) -> ScriptedAnswer:
    """Return the answer with its structured data in the form that the request requires, and with its usage."""
    if answer.data is not None:
        content = ScriptedCall("", answer.data).arguments_text
        if request.has_schema or request.output_tool is None:
            answer = replace(answer, data=None, text=content)
        else:
            answer = replace(answer, data=None, calls=(ScriptedCall(request.output_tool, content),))
    if answer.usage is None:
        answer = replace(answer, usage=_count_tokens(answer, request))
    return answer


def _count_tokens(answer: ScriptedAnswer, request: IncomingRequest) -> ScriptedUsage:
    text = answer.text + answer.thinking + "".join(call.name + call.arguments_text for call in answer.calls)
    return ScriptedUsage(
        input=_tokens(request.size_bytes),
        output=_tokens(len(text.encode(errors="surrogatepass"))),
        reasoning=_tokens(len(answer.thinking)),
    )


def _tokens(size: int) -> int:
    return -(-size // _BYTES_PER_TOKEN)
