"""A short hunt over fixed frames, and the proof that the hunter sees what it must see."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from roamcast.transport.errors import DecodeError

FRAMES = 4_000


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    spec = importlib.util.spec_from_file_location("roamcast_fuzz", Path(__file__).with_name("__main__.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_decoders_refuse_or_return_a_frame(fuzz):
    outcomes = fuzz.hunt(1, 0, FRAMES, 0, fuzz.LINKS, fuzz.corpus())
    kinds = sum(name[0].isupper() for name in outcomes)
    assert kinds > 20, f"the frames must get past the decoders often enough: {outcomes}"
    assert outcomes["bad-frame"] > FRAMES


def refuse(data: bytes) -> object:
    raise DecodeError(0, "not a frame")


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ((lambda data: data[1 << 20], bytes), "IndexError"),
        ((lambda data: {}[0], bytes), "KeyError"),
        ((lambda data: (_ for _ in ()).throw(DecodeError(len(data) + 1, "x")), bytes), "DecodeError at byte"),
        ((lambda data: len(data), lambda length: b""), "decoded again 0"),
        ((lambda data: data, lambda data: data.decode("ascii").nothing), "AttributeError|UnicodeDecodeError"),
    ],
    ids=["index", "key", "offset", "other frame", "encoder"],
)
def test_a_faulty_decoder_is_found(fuzz, link, words):
    with pytest.raises(fuzz.Finding, match=rf"(?s)decode_faulty: .*({words}).*--seed 7 --first \d+ --frames 1"):
        fuzz.hunt(7, 0, 200, 0, {"sound": (refuse, bytes), "faulty": link}, [b"\x83\x01\x02\x03"])
