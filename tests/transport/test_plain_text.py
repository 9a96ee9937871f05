"""Foreign text is shown as one line of signs that print."""

from __future__ import annotations

from roamcast.transport.plain_text import plain


def test_what_prints_stays_and_the_rest_is_escaped() -> None:
    assert plain("Grüße, 東京 'a' / b".encode()) == "Grüße, 東京 'a' / b"
    assert plain("a\nb\t\x1b[2J\u202e\x85\U000e0001".encode()) == r"a\nb\t\x1b[2J\u202e\u0085\U000e0001"
    assert plain(b"C:\\new \x85\xff") == r"C:\\new \x85\xff"


def test_every_sign_becomes_signs_that_print_and_no_other_one_does_so() -> None:
    signs = [chr(code).encode(errors="ignore") for code in range(0x110000)] + [
        bytes([code]) for code in range(128, 256)
    ]
    shown = [plain(sign) for sign in signs if sign]
    assert all(one.isprintable() for one in shown) and len(set(shown)) == len(shown)
