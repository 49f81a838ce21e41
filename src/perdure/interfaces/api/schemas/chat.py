"""Request bodies for conversations."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from perdure.interfaces.api.schemas.goals import LimitsBody, PolicyBody

LONGEST_MESSAGE = 100_000
MessageText = Annotated[str, Field(min_length=1, max_length=LONGEST_MESSAGE, description="The text of the message.")]
ModelName = Annotated[str, Field(min_length=1, max_length=500, description="As `provider:name`.")]


class MessageBody(BaseModel):
    """A message to the model of a conversation."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"text": "And how do I undo it?"}]}
    )
    text: MessageText


class StopBody(BaseModel):
    """An empty object."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{}]})


class ChatBody(BaseModel):
    """The first message of a conversation, with its model, limits and policy."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"text": "Hello, what can you do?"}]}
    )
    text: MessageText
    model: ModelName | None = Field(
        default=None, description="The model (default: that of the bot, else of the server's settings)."
    )
    limits: LimitsBody = LimitsBody()
    policy: PolicyBody | None = Field(
        default=None, description="The policy for calls of the model (default: setting `policy`)."
    )
