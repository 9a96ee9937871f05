"""Foreign text is shown as one line of signs that print."""

from __future__ import annotations

from roamcast.transport.plain_text import plain


def test_what_prints_stays_and_the_rest_is_escaped() -> None:
    assert plain("Grüße, 東京 'a' \\ b") == "Grüße, 東京 'a' \\ b"
    assert plain("a\nb\t\x1b[2J\u202e\udc80\U000e0001") == r"a\nb\t\x1b[2J\u202e\udc80\U000e0001"


def test_every_sign_becomes_one_that_prints() -> None:
    assert all(plain(chr(code)).isprintable() for code in range(0x110000))
