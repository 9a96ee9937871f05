"""The invitation token: whole or refused with a text that says what is wrong, and silent about its secret."""

from __future__ import annotations

import random
import zlib
from base64 import urlsafe_b64encode
from dataclasses import replace

import pytest
from cbor2 import dumps

from roamcast.middleware.settings import SECOND
from roamcast.transport.curve import generate
from roamcast.transport.join_token import Token, TokenError, parse

EXPIRES_S = 1_764_300_000  # 2025-11-28 03:20:00 UTC
BEFORE = (EXPIRES_S - 1) * SECOND


@pytest.fixture
def token() -> Token:
    return Token("fleet", "hill", 4, "tcp://10.0.0.3:7002", generate().public, "5a" * 32, generate(), EXPIRES_S)


def test_a_token_survives_its_text_and_a_mail_program(token: Token) -> None:
    text = token.secret_text()
    assert text.startswith("rci1.") and len(text.split()) == 1
    assert parse(text, BEFORE) == token
    wrapped = "  " + "\r\n > ".join(text[at : at + 60] for at in range(0, len(text), 60)).replace("> ", " ") + "\n"
    assert parse(wrapped, BEFORE) == token


def test_the_longest_token_can_be_read(token: Token) -> None:
    longest = replace(token, group="g" * 64, sponsor="s" * 64, endpoint="tcp://" + "a" * 240 + ":65535", slot=1023)
    assert parse(longest.secret_text(), BEFORE) == longest


@pytest.mark.parametrize("endpoint", ["tcp://*:7002", "tcp://0.0.0.0:7002"])
def test_a_sponsor_that_nobody_can_reach_is_told_with_the_remedy(token: Token, endpoint: str) -> None:
    with pytest.raises(TokenError, match=r"nobody can reach hill at .* and bind-stations to this one"):
        parse(replace(token, endpoint=endpoint).secret_text(), BEFORE)


def test_its_secret_is_in_no_text_but_the_one_that_is_asked_for(token: Token) -> None:
    assert token.keys.secret not in repr(token) and token.secret_text() not in repr(token)


def test_a_token_that_was_cut_off_is_told_so_wherever_it_was_cut(token: Token) -> None:
    text = token.secret_text()
    for end in range(len("rci1."), len(text)):
        with pytest.raises(TokenError, match="cut off"):
            parse(text[:end], BEFORE)


def test_a_token_that_was_pasted_twice_is_told_so(token: Token) -> None:
    text = token.secret_text()
    with pytest.raises(TokenError, match="too long"):
        parse(text + text.removeprefix("rci1."), BEFORE)
    with pytest.raises(TokenError, match="a sign that no token has"):
        parse(text + text, BEFORE)


def test_a_mistyped_sign_is_never_taken_and_no_error_quotes_the_token(token: Token) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    text = token.secret_text()
    for _ in range(300):
        at = rng.randrange(len("rci1."), len(text) - 1)  # of the last sign some bits do not count
        wrong = text[:at] + rng.choice([sign for sign in "AZaz09-_" if sign != text[at]]) + text[at + 1 :]
        with pytest.raises(TokenError) as caught:
            parse(wrong, BEFORE)
        assert text[5:25] not in str(caught.value) and token.keys.secret not in str(caught.value), f"seed {seed}"


@pytest.mark.parametrize("text", ["", "hello", "rci.abc", "rci01.abc", "xrci1.abc"])
def test_what_is_no_token_at_all_is_told_how_one_begins(text: str) -> None:
    with pytest.raises(TokenError, match=r"begins with rci1\."):
        parse(text, BEFORE)


def test_a_token_of_another_format_names_both(token: Token) -> None:
    with pytest.raises(TokenError, match=r"format 2, this release knows 1"):
        parse(token.secret_text().replace("rci1.", "rci2."), BEFORE)


def test_an_expired_token_names_both_times_for_the_clock_may_be_wrong(token: Token) -> None:
    text = token.secret_text()
    with pytest.raises(TokenError, match=r"until 2025-11-28 03:20:00 UTC, .* says 2025-11-29 03:20:00 UTC.*clock"):
        parse(text, (EXPIRES_S + 86_400) * SECOND)
    assert parse(text) == token, "a join that has begun leaves it to the sponsor"


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (["fleet", "hill"], "array of 8"),
        (["fleet", "hi ll", 4, "tcp://a:1", b"k" * 32, b"k" * 32, b"k" * 32, 1], "not acceptable"),
        (["fleet", "hill", 4, "ipc://a", b"k" * 32, b"k" * 32, b"k" * 32, 1], "not acceptable"),
        (["fleet", "hill", 4, "tcp://a:1", b"k" * 31, b"k" * 32, b"k" * 32, 1], "length 31"),
        (["fleet", "hill", 4, "tcp://a:1", b"k" * 32, b"k" * 32, b"k" * 32, -1], "not within"),
    ],
)
def test_a_whole_token_that_says_nonsense_is_refused(content: list[object], match: str) -> None:
    body = dumps(content)
    head = len(body).to_bytes(2) + zlib.crc32(body).to_bytes(4)
    with pytest.raises(TokenError, match=match):
        parse("rci1." + urlsafe_b64encode(head + body).decode().rstrip("="), 0)
