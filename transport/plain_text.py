"""Foreign text on a terminal or in a line of output: nobody forges a line or moves the cursor."""

from __future__ import annotations


def plain(data: bytes) -> str:
    """The text with every sign escaped that does not print (line ends, escapes, changes of direction), and backslashes.

    A byte that is no UTF-8 is shown as \\xff, and no sign beyond ASCII is: the bytes can be told again.
    """
    text = data.decode(errors="surrogateescape")
    return "".join(sign if sign.isprintable() and sign != "\\" else _escaped(sign) for sign in text)


def _escaped(sign: str) -> str:
    code = ord(sign)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if 0x80 <= code <= 0xFF else sign.encode("unicode_escape").decode()
