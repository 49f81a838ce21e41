"""A model server that answers from a script: OpenAI Responses, chat completions and Anthropic messages over HTTP.

May import: what `perdure.testing` may. It is a real server on a port of this machine, for tests, demos and
examples without a vendor: `async with ModelServer(script) as server`, or `python -m perdure.testing.model_server`.
"""

from perdure.testing.model_server.answers import ScriptedAnswer, ScriptedCall
from perdure.testing.model_server.record import RecordedRequest
from perdure.testing.model_server.script import Script, read_script
from perdure.testing.model_server.server import ModelServer

__all__ = ["ModelServer", "RecordedRequest", "Script", "ScriptedAnswer", "ScriptedCall", "read_script"]
