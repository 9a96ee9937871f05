"""The benchmark's own judgement: what it counts, and when it calls a run bad."""

from __future__ import annotations

import time
from collections import OrderedDict

import pytest
import zmq
from bench.child import difference, percentile
from bench.light_host import STAMP, Counts, StationHost
from bench.split import CODEC, CORE, POLL, Split
from bench.tables import headers_are_equal

from roamcast.middleware.host_frames import PROTOCOL_VERSION, Refused, Welcome
from roamcast.middleware.rows import Item, Kind
from roamcast.transport.codec import encode_down, encode_item, encode_msg


@pytest.fixture
def host():
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.bind("inproc://station")
    place = {"endpoint": "inproc://station", "key": None, "label": "1", "name": "h1", "slot": 1, "incarnation": 7}
    yield StationHost(context, place, Counts(), OrderedDict(), OrderedDict())
    context.destroy(linger=0)


def message(position, body):
    item = encode_item(Item(1, position, "h1", 7, position, Kind.BROADCAST, body))
    return encode_msg(position - 1, position, [(position, item)])


def test_a_host_counts_what_it_takes_and_its_header(host):
    host.take(encode_down(Welcome(PROTOCOL_VERSION, 1, 0, False, 300, 1 << 18, 512)))
    assert host.open
    frame = message(301, STAMP.pack(5) + b"body")
    host.take(frame)
    assert (host.counts.deliveries, host.counts.frames, host.counts.lost) == (1, 1, 0)
    assert host.counts.header_bytes == len(frame) - len("h1") - STAMP.size - len("body")


def test_a_host_sees_a_lost_frame_and_a_refusal(host):
    host.take(encode_down(Welcome(PROTOCOL_VERSION, 1, 0, False, 300, 1 << 18, 512)))
    host.take(message(302, STAMP.pack(5)))
    host.take(encode_down(Refused("name", "no")))
    assert host.counts.deliveries == 0
    assert host.counts.lost == 1
    assert len(host.counts.other) == 1


def test_headers_are_equal_only_if_both_links_agree():
    ten = {"hosts": 10, "host_link": 26.0, "between_stations": 67.0}
    assert headers_are_equal([ten, {**ten, "hosts": 1_000}])
    assert not headers_are_equal([ten, {**ten, "host_link": 27.0}])
    assert headers_are_equal([ten, {**ten, "between_stations": 69.0}]), "steps of clocks"
    assert not headers_are_equal([ten, {**ten, "between_stations": 69.5}])


class Work:
    """An outer part with an inner one."""

    def outer(self, seconds):
        burn(seconds)
        self.inner(2 * seconds)

    def inner(self, seconds):
        burn(seconds)


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_part_does_not_count_the_parts_inside_it():
    split = Split([(Work, "outer", CORE), (Work, "inner", CODEC)])
    before = Work.outer
    split.begin()
    Work().outer(0.01)
    parts = split.end()["parts"]
    assert parts[CORE][0] == pytest.approx(0.01, abs=0.005)
    assert parts[CODEC][0] == pytest.approx(0.02, abs=0.005)
    assert parts[POLL][0] < 0.005
    assert Work.outer is before


def test_differences_and_percentiles():
    assert difference({"a": 5, "b": {"c": 3, "d": 1}}, {"a": 2, "b": {"c": 1}}) == {"a": 3, "b": {"c": 2, "d": 1}}
    assert percentile([float(n) for n in range(100)], 0.99) == 99.0
    assert percentile([], 0.5) == 0.0
