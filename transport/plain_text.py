"""Foreign text on a terminal or in a line of output: nobody forges a line or moves the cursor."""

from __future__ import annotations


def plain(text: str) -> str:
    """The text with every sign escaped that does not print (line ends, escapes, changes of direction)."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
