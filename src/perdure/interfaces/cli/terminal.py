"""Text that others wrote, made fit to be shown: no control character of it reaches a terminal."""

_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
_HIDDEN = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_HIDDEN |= {code: f"\\u{code:04x}" for code in (*_BIDI, 0x2028, 0x2029)}
_HIDDEN |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
_IN_LINES = {code: shown for code, shown in _HIDDEN.items() if chr(code) not in "\n\t"}


def one_line(text: str) -> str:
    r"""Show a text in one line: a control character, a line's end included, is written as `\x1b`."""
    return text.translate(_HIDDEN)


def lines(text: str) -> str:
    r"""Show a text of several lines; what could move the cursor or change the terminal is written as `\x1b`."""
    return text.replace("\r\n", "\n").translate(_IN_LINES)
