"""Converts errors to outcomes of calls."""

import errno
from typing import Any

from perdure.errors import PerdureError
from perdure.kernel.events import ToolCall, ToolError, ToolOutput

_CODES = {
    errno.ENOENT: "not_found",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ETXTBSY), "denied"),
    **dict.fromkeys((errno.E2BIG, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST), "invalid"),
}


def failed(call: ToolCall, error: Exception, output: Any = None) -> ToolOutput:
    """Return the outcome of a call that failed before it had an effect."""
    if isinstance(error, PerdureError):
        reason = ToolError(error.code, error.detail)
    else:
        number = error.errno if isinstance(error, OSError) else None
        message = str(error) or type(error).__name__
        reason = ToolError(_CODES.get(number or 0, "unavailable"), f"The system says: {message}.")
    return ToolOutput(call.call_id, ok=False, output=output, error=reason)
