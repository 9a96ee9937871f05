"""Throw random and mutated frames at the decoders: every byte string is a frame or a DecodeError, never anything else.

Run: ``python3 dev.py fuzz [--seconds N] [--seed N]``. Frame i of seed s is the same on every machine, so a failure is
replayed by ``--seed s --first i --frames 1``. The corpus is the golden vectors of the wire.

Checked for each frame and decoder:
- the decoder returns a frame, or raises DecodeError with an offset inside the data;
- what it returned can be encoded, and these bytes decode to the same frame.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cbor2 import dumps

from roamcast.transport.codec import DOWN, JOIN, JOIN_ANSWER, PEER, UP, decode_up
from roamcast.transport.errors import DecodeError

VECTORS = Path(__file__).resolve().parents[1]
Link = tuple[Callable[[bytes], Any], Callable[[Any], bytes]]
LINKS: dict[str, Link] = {
    "up": (decode_up, UP.encode),
    "down": (DOWN.decode, DOWN.encode),
    "peer": (PEER.decode, PEER.encode),
    "join": (JOIN.decode, JOIN.encode),
    "join_answer": (JOIN_ANSWER.decode, JOIN_ANSWER.encode),
}
EDGES = (0, 1, 23, 24, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
HEADS = bytes((0x18, 0x19, 0x1A, 0x1B, 0x3B, 0x5B, 0x5F, 0x7B, 0x80, 0x9A, 0x9B, 0x9F, 0xBB, 0xC0, 0xF6, 0xFB, 0xFF))
"""First bytes of CBOR items that decoders stumble over: long forms, huge lengths, indefinite lengths, tags, floats."""
REPORT_SECONDS = 5.0


class Finding(Exception):
    """A decoder did what it must not do."""


def corpus() -> list[bytes]:
    """Return the golden vectors of the wire, in order of their names."""
    texts = [path.read_text() for path in sorted(VECTORS.glob("**/*.hex"))]
    return [bytes.fromhex(text) for text in texts]


def value(rng: random.Random, depth: int) -> Any:
    """Return a random CBOR value of the kinds that frames are made of, and some that they are not."""
    kind = rng.randrange(9 if depth else 7)
    if kind < 2:
        return rng.choice(EDGES) * rng.choice((1, 1, 1, -1))
    if kind == 2:
        return rng.randrange(64)
    if kind == 3:
        return rng.randbytes(rng.randrange(40))
    if kind == 4:
        return "".join(rng.choices("az-.:é\x00", k=rng.randrange(12)))
    if kind == 5:
        return rng.choice((None, True, False))
    if kind == 6:
        return rng.choice((0.5, float("nan"), {}, {1: 2}))
    return [value(rng, depth - 1) for _ in range(rng.randrange(8))]


def mutated(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Return `data` after one small damage."""
    at = rng.randrange(len(data) + 1)
    to = min(len(data), at + rng.randrange(1, 9))
    match rng.randrange(8):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[to:]
        case 2:
            return data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]
        case 3:
            return data[:at] + data[at:to] * rng.randrange(2, 5) + data[to:]
        case 4:
            return data[:at] + bytes((rng.choice(HEADS),)) + data[at + 1 :]
        case 5:
            return data[:at] + dumps(value(rng, 2)) + data[to:]
        case 6:
            return data[:at] + other[rng.randrange(len(other) + 1) :]
        case _:
            return data[:at] + bytes(byte ^ 1 << rng.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]


def frame(seed: int, index: int, seeds: Sequence[bytes]) -> bytes:
    """Return frame `index` of `seed`: noise, random CBOR, or a golden vector after some damage."""
    rng = random.Random((seed << 64) + index)
    kind = rng.randrange(20)
    if kind == 0:
        return rng.randbytes(rng.randrange(64))
    if kind < 4:
        return dumps([rng.randrange(88), *(value(rng, 3) for _ in range(rng.randrange(12)))])
    data = rng.choice(seeds)
    for _ in range(rng.randrange(1, 5)):
        data = mutated(rng, data, rng.choice(seeds))
    return data


def examine(link: Link, data: bytes) -> str:
    """Return what the decoder made of `data`: a frame's name or a reason. Raises Finding."""
    decode, encode = link
    try:
        decoded = decode(data)
    except DecodeError as refusal:
        if not 0 <= refusal.offset <= len(data):
            raise Finding(f"DecodeError at byte {refusal.offset} of {len(data)}") from refusal
        return refusal.code
    except Exception as error:
        raise Finding(f"{type(error).__name__}: {error}") from error
    try:
        again = decode(encode(decoded))
    except Exception as error:
        raise Finding(f"decoded {decoded!r}, then {type(error).__name__}: {error}") from error
    if again != decoded:
        raise Finding(f"decoded {decoded!r}, encoded and decoded again {again!r}")
    return type(decoded).__name__


def hunt(
    seed: int, first: int, frames: int | None, seconds: float, links: Mapping[str, Link], seeds: Sequence[bytes]
) -> Counter[str]:
    """Examine `frames` frames (None: as many as `seconds` allow) from `first` on; return how often each outcome came.

    Raises Finding with the line that replays it.
    """
    outcomes: Counter[str] = Counter()
    begin = shown = time.monotonic()
    index = first
    while index - first < frames if frames is not None else time.monotonic() - begin < seconds:
        data = frame(seed, index, seeds)
        for name, link in links.items():
            try:
                outcomes[examine(link, data)] += 1
            except Finding as finding:
                again = f"python3 dev.py fuzz --seed {seed} --first {index} --frames 1"
                raise Finding(f"decode_{name}: {finding}\n  data: {data.hex()}\n  again: {again}") from finding
        index += 1
        if index % 256 == 0 and (now := time.monotonic()) - shown >= REPORT_SECONDS:
            shown = now
            print(f"fuzz: {index - first:,} frames in {now - begin:.0f} s", flush=True)
    print(f"fuzz: {index - first:,} frames, each at {len(links)} decoders, in {time.monotonic() - begin:.1f} s")
    return outcomes


def main(argv: Sequence[str]) -> int:
    """Run the hunt. Return 0, or 1 when something was found."""
    parser = argparse.ArgumentParser(prog="dev.py fuzz", description="Random and mutated frames at the decoders.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default 60)")
    parser.add_argument("--frames", type=int, help="how many frames, instead of --seconds")
    parser.add_argument("--seed", type=int, default=None, help="default: a fresh one, printed")
    parser.add_argument("--first", type=int, default=0, help="first frame of the seed")
    options = parser.parse_args(argv)
    seed = secrets.randbits(32) if options.seed is None else options.seed
    seeds = corpus()
    print(f"fuzz: seed {seed}, {len(seeds)} golden vectors", flush=True)
    try:
        outcomes = hunt(seed, options.first, options.frames, options.seconds, LINKS, seeds)
    except Finding as finding:
        print(f"fuzz: FOUND {finding}")
        return 1
    print("fuzz: " + ", ".join(f"{name} {count:,}" for name, count in sorted(outcomes.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
