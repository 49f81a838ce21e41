"""Estimates of tokens from the length of texts, if the provider has not counted them."""

from perdure.kernel.conversation.parts import Part, TextPart, ThinkingPart, TokenUsage, ToolCallPart
from perdure.minds.model.ports import ModelMessage, ModelParts, ModelRequest, ToolResult, UserText

_BYTES_PER_TOKEN = 3


def estimate_usage(request: ModelRequest, answer_bytes: int) -> TokenUsage:
    """Return the estimated tokens of a request and its answer so far."""
    return TokenUsage(input=estimate_tokens(size_of(request)), output=estimate_tokens(answer_bytes), estimated=True)


def estimate_tokens(size_bytes: int) -> int:
    """Return the estimated tokens of a text of a size."""
    return -(-size_bytes // _BYTES_PER_TOKEN)


def size_of(request: ModelRequest) -> int:
    """Return the estimated size of the texts of a request in bytes."""
    tools = sum(len(tool.name) + len(tool.description) + len(str(tool.parameters)) for tool in request.tools)
    return _bytes(request.system) + tools + sum(_message_size(message) for message in request.messages)


def _message_size(message: ModelMessage) -> int:
    match message:
        case UserText(text):
            return _bytes(text)
        case ToolResult():
            return _bytes(message.content)
        case ModelParts(parts):
            return sum(_part_size(part) for part in parts)


def _part_size(part: Part) -> int:
    match part:
        case TextPart() | ThinkingPart():
            return _bytes(part.text)
        case ToolCallPart():
            return len(part.tool) + _bytes(part.arguments_text or str(part.arguments))


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
