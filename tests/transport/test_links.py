"""ZAP, sockets and their monitors on loopback: who gets in, and what the others are told."""

from __future__ import annotations

import socket as tcp
import time
from collections.abc import Callable, Iterator

import pytest
import zmq

from roamcast.transport import curve, limits, sockets, station_sockets, zap
from roamcast.transport.errors import CannotBind, LibraryTooOld
from roamcast.transport.sockets import LinkMonitor, Monitor, connect_host, new_context
from roamcast.transport.station_sockets import HandshakeMonitor, bind_hosts, bind_stations, connect_peer, raise_limits
from roamcast.transport.zap import ZapResponder

ANYWHERE = "tcp://127.0.0.1:*"
Context = zmq.Context[zmq.Socket[bytes]]
Socket = zmq.Socket[bytes]


class Station:
    """A station's sockets and ZAP, turned by hand."""

    def __init__(self, context: Context) -> None:
        self.keys = curve.generate()
        self.users: dict[tuple[str, str], str] = {}
        self.reports: list[tuple[str, int, str, str]] = []
        self.clock = 100.0
        self.zap = ZapResponder(
            context,
            lambda domain, key, address: self.users.get((domain, key)),
            lambda *report: self.reports.append(report),
            lambda: self.clock,
        )
        self.hosts = bind_hosts(context, ANYWHERE, self.keys)
        self.stations = bind_stations(context, ANYWHERE, self.keys)

    def endpoint(self, socket: Socket) -> str:
        return socket.getsockopt_string(zmq.LAST_ENDPOINT)


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    context = new_context()
    made: list[Monitor] = []
    first = Monitor.__init__

    def keep(monitor: Monitor, watched: Socket, events: int) -> None:
        made.append(monitor)
        first(monitor, watched, events)

    monkeypatch.setattr(Monitor, "__init__", keep)
    yield context
    for monitor in made:
        monitor.close()
    context.destroy(linger=0)


@pytest.fixture
def station(context: Context) -> Station:
    return Station(context)


def turn(
    station: Station | None, done: Callable[[], bool], watched: tuple[Socket, ...] = (), seconds: float = 10
) -> None:
    """Answer ZAP until `done`."""
    poller = zmq.Poller()
    for socket in watched:
        poller.register(socket, zmq.POLLIN)
    if station:
        poller.register(station.zap.socket, zmq.POLLIN)
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until, "nothing came"
        poller.poll(50)
        if station:
            station.zap.answer()


def outcome(station: Station | None, monitor: LinkMonitor) -> str:
    """The first change of a link."""
    changes: list[str] = []
    turn(station, lambda: bool(changes.extend(monitor.changes()) or changes), (monitor.socket,))
    return changes[0]


def received(station: Station, socket: Socket) -> list[zmq.Frame]:
    turn(station, lambda: bool(socket.poll(0)), (socket,))
    return socket.recv_multipart(copy=False)


def test_an_enrolled_host_gets_in_and_its_channel_carries_its_name(context: Context, station: Station) -> None:
    keys = curve.generate()
    station.users["hosts", keys.public] = "host:ann"
    link, monitor = connect_host(context, station.endpoint(station.hosts), keys, station.keys.public)
    assert outcome(station, monitor) == sockets.UP
    link.send(b"hello")
    channel, part = received(station, station.hosts)
    assert part.bytes == b"hello" and part.get("User-Id") == "host:ann" and not part.more
    station.hosts.send_multipart([channel.bytes, b"welcome"])
    turn(station, lambda: bool(link.poll(0)), (link,))
    assert link.recv() == b"welcome"


def test_the_link_that_was_up_and_ends_says_so(context: Context, station: Station) -> None:
    keys = curve.generate()
    station.users["hosts", keys.public] = "host:ann"
    _, monitor = connect_host(context, station.endpoint(station.hosts), keys, station.keys.public)
    assert outcome(station, monitor) == sockets.UP
    assert monitor.reason == sockets.CLOSED
    station.hosts.close()
    assert outcome(station, monitor) == sockets.CLOSED


def test_an_unknown_key_is_refused_counted_and_told_both_sides(context: Context, station: Station) -> None:
    keys = curve.generate()
    station.users["stations", keys.public] = "station:dale"  # a station's key opens no door for hosts
    for _ in range(3):
        _, monitor = connect_host(context, station.endpoint(station.hosts), keys, station.keys.public)
        assert outcome(station, monitor) == sockets.UNKNOWN_KEY
    assert station.zap.refused == {"hosts": 3}
    assert station.reports == [("hosts", 1, keys.public, "127.0.0.1")], "at most one in ten seconds"
    station.clock += 10
    _, monitor = connect_host(context, station.endpoint(station.hosts), keys, station.keys.public)
    assert outcome(station, monitor) == sockets.UNKNOWN_KEY
    assert station.reports[1:] == [("hosts", 3, keys.public, "127.0.0.1")]


def test_a_wrong_station_key_is_told_apart_and_counted(context: Context, station: Station) -> None:
    failures = HandshakeMonitor(station.hosts)
    _, monitor = connect_host(context, station.endpoint(station.hosts), curve.generate(), curve.generate().public)
    assert outcome(station, monitor) == sockets.WRONG_KEY
    turn(station, lambda: failures.count() > 0, (failures.socket,))
    assert failures.failed == {"wrong station key, or no CURVE": 1}
    assert station.zap.refused == {}


def test_nobody_there_is_told_apart(context: Context) -> None:
    with tcp.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _, monitor = connect_host(context, f"tcp://127.0.0.1:{port}", curve.generate(), curve.generate().public)
    assert outcome(None, monitor) == sockets.UNREACHABLE


def test_a_name_that_does_not_resolve_is_unreachable(context: Context) -> None:
    link, monitor = connect_host(context, "tcp://no-such-host.invalid:7001", curve.generate(), curve.generate().public)
    link.poll(100)
    assert set(monitor.changes()) <= {sockets.UNREACHABLE}
    assert monitor.reason == sockets.UNREACHABLE


def test_something_silent_is_told_apart(context: Context) -> None:
    with tcp.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        endpoint = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        _, monitor = connect_host(context, endpoint, curve.generate(), curve.generate().public)

        def connected() -> bool:
            assert monitor.changes() == []
            return monitor.reason == sockets.NO_HANDSHAKE

        turn(None, connected, (monitor.socket,))
        connection, _ = silent.accept()
        connection.close()
    assert outcome(None, monitor) in (sockets.BROKEN_OFF, sockets.WRONG_KEY)


def test_without_an_answer_of_zap_nobody_gets_in(context: Context) -> None:
    """BL-37: a ROUTER for which nobody answers, and one whose answerer has gone."""
    for with_responder in (False, True):
        if with_responder:
            station = Station(context)
            server, server_keys = station.hosts, station.keys
            station.zap.close()
        else:
            server_keys = curve.generate()
            server = bind_hosts(context, ANYWHERE, server_keys)
        endpoint = server.getsockopt_string(zmq.LAST_ENDPOINT)
        link, monitor = connect_host(context, endpoint, curve.generate(), server_keys.public)
        assert outcome(None, monitor) != sockets.UP
        with pytest.raises(zmq.Again):
            link.send(b"let me in", zmq.NOBLOCK)


def test_a_client_without_curve_gets_nowhere(context: Context, station: Station) -> None:
    failures = HandshakeMonitor(station.hosts)
    plain = context.socket(zmq.DEALER)
    plain.setsockopt(zmq.LINGER, 0)
    plain.connect(station.endpoint(station.hosts))
    plain.send(b"hello")
    turn(station, lambda: failures.count() > 0, (failures.socket,))
    assert not station.hosts.poll(50)


def test_no_host_takes_the_channel_of_another(context: Context, station: Station) -> None:
    """security.md: a second enrolled key under the routing id of the first gets a channel of its own, or none."""
    ann, bob = curve.generate(), curve.generate()
    station.users["hosts", ann.public], station.users["hosts", bob.public] = "host:ann", "host:bob"
    first, monitor = connect_host(context, station.endpoint(station.hosts), ann, station.keys.public)
    assert outcome(station, monitor) == sockets.UP
    first.send(b"ann")
    channel, _ = received(station, station.hosts)
    thief = context.socket(zmq.DEALER)
    sockets.set_client(thief, bob, station.keys.public)
    thief.setsockopt(zmq.ROUTING_ID, channel.bytes if channel.bytes[0] else b"x" + channel.bytes[1:])
    thief.connect(station.endpoint(station.hosts))
    turn(station, lambda: bool(thief.poll(0, zmq.POLLOUT)), ())
    thief.send(b"bob")
    enough = time.monotonic() + 2
    turn(station, lambda: bool(station.hosts.poll(0)) or time.monotonic() > enough, (station.hosts,))
    if station.hosts.poll(0):  # else its id won the race against ours, and there is no second channel of that name
        other, part = received(station, station.hosts)
        assert (part.get("User-Id"), other.bytes != channel.bytes) == ("host:bob", True)
    station.hosts.send_multipart([channel.bytes, b"for ann"])
    turn(station, lambda: bool(first.poll(0)), (first,))
    assert (first.recv(), thief.poll(50)) == (b"for ann", 0)


def test_who_comes_too_often_is_told_and_counted(context: Context, station: Station) -> None:
    keys = curve.generate()
    station.users["hosts", keys.public] = zap.TRY_LATER
    _, monitor = connect_host(context, station.endpoint(station.hosts), keys, station.keys.public)
    assert outcome(station, monitor) == sockets.NOT_NOW
    assert station.zap.refused == {"hosts": 1}


def test_the_largest_frames_pass_and_larger_ones_end_the_link(context: Context, station: Station) -> None:
    keys = curve.generate()
    station.users["hosts", keys.public] = "host:ann"
    link, monitor = connect_host(context, station.endpoint(station.hosts), keys, station.keys.public)
    assert outcome(station, monitor) == sockets.UP
    link.send(bytes(limits.UP_FRAME_BYTES_MAX))
    channel, part = received(station, station.hosts)
    assert len(part.bytes) == limits.UP_FRAME_BYTES_MAX
    station.hosts.send_multipart([channel.bytes, bytes(limits.DOWN_FRAME_BYTES_MAX)])
    turn(station, lambda: bool(link.poll(0)), (link,))
    assert len(link.recv()) == limits.DOWN_FRAME_BYTES_MAX
    link.send(bytes(limits.UP_FRAME_BYTES_MAX + 2 * limits.CURVE_OVERHEAD_BYTES))
    assert outcome(station, monitor) == sockets.CLOSED


def test_a_peer_gets_in_with_its_key_and_comes_back_by_itself(context: Context, station: Station) -> None:
    keys = curve.generate()
    station.users["stations", keys.public] = "station:dale"
    link, monitor = connect_peer(context, station.endpoint(station.stations), keys, station.keys.public)
    with pytest.raises(zmq.Again):
        connect_peer(context, "tcp://127.0.0.1:9", keys, station.keys.public)[0].send(b"x", zmq.NOBLOCK)
    assert outcome(station, monitor) == sockets.UP
    link.send(bytes(limits.PEER_FRAME_BYTES_MAX))
    _, part = received(station, station.stations)
    assert part.get("User-Id") == "station:dale" and len(part.bytes) == limits.PEER_FRAME_BYTES_MAX
    endpoint = station.endpoint(station.stations)
    station.stations.close()
    assert outcome(station, monitor) == sockets.CLOSED
    bound: list[Socket] = []

    def bind_again() -> bool:
        try:
            bound.append(bind_stations(context, endpoint, station.keys))
        except CannotBind:  # the closing of the former one has not reached the kernel
            return False
        return True

    turn(station, bind_again)
    changes: list[str] = []

    def up_again() -> bool:
        changes.extend(monitor.changes())
        return sockets.UP in changes

    turn(station, up_again, (monitor.socket,))
    assert set(changes) <= {sockets.UNREACHABLE, sockets.BROKEN_OFF, sockets.UP}


def test_a_taken_endpoint_is_told(context: Context, station: Station) -> None:
    endpoint = station.endpoint(station.hosts)
    with pytest.raises(CannotBind, match=f"{endpoint} for stations: Address already in use"):
        bind_stations(context, endpoint, station.keys)


@pytest.mark.parametrize(
    "request_parts",
    [
        [],
        [b"1.0"],
        [b"1.0", b"7"],
        [b"1.0", b"7", b"hosts", b"127.0.0.1", b"", b"CURVE"],
        [b"1.0", b"7", b"hosts", b"127.0.0.1", b"", b"CURVE", bytes(31)],
        [b"1.0", b"7", b"hosts", b"127.0.0.1", b"", b"CURVE", bytes(32), b""],
        [b"1.0", b"7", b"hosts", b"127.0.0.1", b"", b"NULL", bytes(32)],
        [b"1.0", b"7", b"hosts", b"127.0.0.1", b"", b"PLAIN", b"user", b"password"],
        [b"2.0", b"7", b"hosts", b"127.0.0.1", b"", b"CURVE", bytes(32)],
        [b"1.0", b"7", b"\xff\xfe", b"\xff" * 500, b"", b"CURVE", bytes(32)],
        [b"\x00" * 300] * 30,
    ],
)
def test_a_malformed_zap_request_lets_nobody_in(context: Context, request_parts: list[bytes]) -> None:
    allowed: list[str] = []
    responder = ZapResponder(context, lambda domain, key, address: None, lambda *report: allowed.append(report[0]))
    asker = context.socket(zmq.DEALER)
    asker.connect(zap.ENDPOINT)
    asker.send_multipart([b"", *request_parts])
    asker.send_multipart([b"", b"1.0", b"last", b"hosts", b"127.0.0.1", b"", b"CURVE", bytes(32)])
    answered = 0
    while answered < 2:
        assert responder.socket.poll(5_000)
        answered += responder.answer()
    answers = []
    while asker.poll(0):
        answers.append(asker.recv_multipart())
    assert answers[-1][1:4] == [b"1.0", b"last", b"400"], "it goes on"
    assert all(answer[3] == b"400" and answer[5] == b"" for answer in answers)


def test_a_good_zap_request_is_answered_with_the_user(context: Context) -> None:
    keys = curve.generate()
    asked: list[tuple[str, str, str]] = []

    def allow(domain: str, key: str, address: str) -> str:
        asked.append((domain, key, address))
        return "host:zo\u00eb"

    responder = ZapResponder(context, allow, lambda *report: None)
    asker = context.socket(zmq.DEALER)
    asker.connect(zap.ENDPOINT)
    raw = zmq.utils.z85.decode(keys.public.encode())
    for i in range(600):
        asker.send_multipart([b"", b"1.0", str(i).encode(), b"hosts", b"10.0.0.7", b"", b"CURVE", raw])
    assert responder.answer() == zap.ANSWERS_MAX, "bounded, so that a storm of handshakes does not stop the loop"
    assert responder.answer() == 600 - zap.ANSWERS_MAX
    assert asked == [("hosts", keys.public, "10.0.0.7")] * 600
    answers = [asker.recv_multipart() for _ in range(600)]
    assert answers[0][:6] == [b"", b"1.0", b"0", b"200", b"", "host:zo\u00eb".encode()]
    head, given = b"\x08Identity\0\0\0\x10", {answer[6] for answer in answers}
    assert len(given) == 600 and all(each.startswith(head) and len(each) == len(head) + 16 for each in given)


def test_a_library_with_known_holes_is_refused() -> None:
    """BL-38."""
    with pytest.raises(LibraryTooOld, match=r"libzmq 4\.3\.1 is linked; at least 4\.3\.2"):
        new_context((4, 3, 1))


def test_sockets_have_the_options_that_the_design_names(context: Context, station: Station) -> None:
    for router, frame, queue in (
        (station.hosts, limits.UP_FRAME_BYTES_MAX, 64),
        (station.stations, limits.PEER_FRAME_BYTES_MAX, 256),
    ):
        assert router.getsockopt(zmq.MAXMSGSIZE) == frame + limits.CURVE_OVERHEAD_BYTES
        assert router.getsockopt(zmq.SNDHWM) == router.getsockopt(zmq.RCVHWM) == queue
        assert router.getsockopt(zmq.LINGER) == 0
        assert router.getsockopt(zmq.CURVE_SERVER) == 1
        assert router.getsockopt(zmq.HANDSHAKE_IVL) == 5_000
        with pytest.raises(zmq.ZMQError, match="unreachable"):
            router.send_multipart([b"nobody", b""])  # ROUTER_MANDATORY
    link, _ = connect_host(context, station.endpoint(station.hosts), curve.generate(), station.keys.public)
    assert link.getsockopt(zmq.RECONNECT_IVL) == -1
    assert link.getsockopt(zmq.ROUTING_ID) == b""
    assert link.getsockopt(zmq.IMMEDIATE) == 1
    assert link.getsockopt(zmq.LINGER) == 0


def test_limits_are_raised_as_far_as_the_system_lets() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    context = new_context()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        files = raise_limits(context)
        assert files == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert files == min(station_sockets.FILES_MAX, before[1]) or before[1] == resource.RLIM_INFINITY
        assert context.get(zmq.MAX_SOCKETS) >= min(files, context.get(zmq.SOCKET_LIMIT))
        assert raise_limits(context) == files, "what is high enough stays"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        context.term()


def test_a_link_can_be_closed_at_any_time(context: Context, station: Station) -> None:
    """Events that come while it closes find nobody; with the wrong order libzmq's thread would wait for ever."""
    endpoint = station.endpoint(station.hosts)
    keys = curve.generate()
    for i in range(200):
        where = endpoint if i % 2 else "tcp://127.0.0.1:9"
        link, monitor = connect_host(context, where, keys, station.keys.public)
        monitor.close()
        link.close()
    station.users["hosts", keys.public] = "host:ann"
    _, monitor = connect_host(context, endpoint, keys, station.keys.public)
    assert outcome(station, monitor) == sockets.UP
