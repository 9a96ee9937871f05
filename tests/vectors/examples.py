"""One example, or more, of every frame: the golden vectors beside this file are made from them.

`python tests/vectors/examples.py` shows what would change; only with `--rewrite` it is written. A changed vector is a
changed wire: say so in CHANGELOG.md.
"""

from __future__ import annotations

import difflib
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from roamcast.middleware import host_frames as hf
from roamcast.middleware import station_frames as sf
from roamcast.middleware.causal_unicast.frames import MailBatch, MailNone, MailQuery
from roamcast.middleware.causal_unicast.records import Mail, MailAcks
from roamcast.middleware.delta_causal.past import Past
from roamcast.middleware.fifo_broadcast.claims import Beyond
from roamcast.middleware.lan_update.records import BUCKETS, Entry, LanAck, LanPacket, Version
from roamcast.middleware.live_frames import LiveCast, LiveClock
from roamcast.middleware.membership.frames import Join, Joined, JoinFrame, JoinRefused
from roamcast.middleware.membership.view import Closing, Ending, GroupView, View
from roamcast.middleware.publication import Hearing, Publish
from roamcast.middleware.rows import PRESENCE, Item, Kind, Row, SpoolItem, Steps
from roamcast.middleware.writes import HostEntry, LastValue, RecordImage
from roamcast.transport.codec import DOWN, JOIN, JOIN_ANSWER, PEER, UP, encode_item

FOLDER = Path(__file__).parent
KEY = b"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
BIG = (1 << 63) - 1

BROADCAST = Item(3, 70_000, "anna", 0xDEADBEEF, 41, Kind.BROADCAST, b"good morning")
MAIL = Item(0, 1, "zo\u00eb-\u96ea", 0, 1, Kind.MAIL, b"")
REFUSED = Item(1023, (1 << 40) - 1, "b", 7, BIG, Kind.REFUSED, b"\x00\xff")
VALUE = Item(3, 70_002, "anna", 7, 42, Kind.RETAINED, b"21.5", "weather/\u96ea", 1_795_000_000_000_000)
SUBSCRIBED = Item(5, 9, "zo\u00eb-\u96ea", 7, 3, Kind.SUB, b"", VALUE.topic, 1_795_000_000_000_001)
ONLINE = Item(1, 2, "anna", 7, 9, Kind.ONLINE, b"", "$presence/anna", BIG)
MH = (3 << 32 | 12, 0xFEDC_BA98_7654_3210)
SPOOLED, SPOOLED_VALUE = encode_item(BROADCAST), encode_item(VALUE)
ON_TOPIC = SpoolItem(3, 70_002, SPOOLED_VALUE, len(SPOOLED_VALUE), 1 << 31, (5, 9))


class Holders(frozenset[Any]):
    """Shows its elements in one order."""

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, sorted(self)))}}}"


WALL = 1_795_000_000_000_000
OLD, NEW = Version(WALL, 0, "hill", (1 << 64) - 1), Version(WALL, 1, "dale.2", 0)
HOLDERS = Holders(("hill", "dale.2", "X"))
LIVE = Entry("settings/colour", OLD, b"\xa0", None, bytes(range(64)), Holders())
CLOSING = GroupView(
    (1, 3, 4, 5, 8), (1, 4, 5), (1, 5), (1, 4), (1,), True,
    (Closing(4, 0, 70_000, 12, (0, 9, 0, 0, 69_998)), Closing(5, 3, 0, 12, ())),
)  # fmt: skip
VIEW = View(
    (1, 3, 4, 5, 8), {1: (0, (0, 9)), 4: (0, (4, 0, 70_000)), 5: (3, ())},
    {1: Ending(0, 9, (0, 9, 0, 12)), 5: Ending(3, 0, ())}, Holders((1, 4)), Holders((1, 5)), False, 3, 8, True,
)  # fmt: skip
IMAGE = RecordImage(
    MH, 9, "moved", -1, True, (4, 0, 70_000), 70_001, False, 8, 7, 9, (5, 1, 70_001), -17, True, 41, (3, 70_000),
    (), (5, 10), True, 0, False, True, False, WALL, (("b", b""), ("aa", b"\1")), 70_009,
)  # fmt: skip
DELETED = Entry("topics/\u96ea", NEW, None, OLD, bytes(64), HOLDERS)


def _row(n: int, kind: Kind, item: bytes, **changed: Any) -> Row:
    values: dict[str, Any] = {
        "slot": 3, "n": n, "stamp": ((0, 7), (5, 1 << 20)), "hlc": 1_795_000_000_000_000, "kind": kind, "host": MH[0],
        "incarnation": MH[1], "number": 41, "taken": (9, -2), "addressee": 0, "item": item, "size": len(item),
    }  # fmt: skip
    return Row(**(values | changed))


UP_EXAMPLES: dict[str, hf.UpFrame] = {
    "hello": hf.Hello((1, 0), "anna", MH[1], False, 9, 3, 8, 4711, 42, 5),
    "hello-first": hf.Hello((1, 0), "b", 1, True, 1, 0, 0, 0, 1, 240),
    "ack": hf.Ack(9, 123_456),
    "ack-spool": hf.Ack(1 << 32, -17),
    "data": hf.Data(9, 41, 123_456, None, b"good morning"),
    "data-mail": hf.Data(9, 42, -1, "zo\u00eb-\u96ea", b""),
    "topic-data": hf.TopicData(9, 43, 123_456, Kind.RETAINED, "weather/\u96ea", b"21.5"),
    "topic-data-sub": hf.TopicData(9, 44, -1, Kind.SUB, "$presence/anna", b""),
    "ping": hf.Ping(9, 123_456),
    "detach": hf.Detach(9),
    "leave": hf.Leave(9),
    "seen": hf.Seen(9, ((0, 12), (3, 70_000)), 40, 41, (38, 40)),
    "seen-nothing": hf.Seen(1, (), 0, 0, ()),
    "heard": hf.Heard(9),
    "live-data": hf.LiveData(9, 43, "weather/\u96ea", True, 200_000, b"21.5", 7),
}
DOWN_EXAMPLES: dict[str, hf.DownFrame] = {
    "welcome": hf.Welcome((1, 0), 9, 40, False, -3, 262_144, 512),
    "welcome-stations": hf.Welcome(
        (1, 7), 9, 40, True, 0, 1, 1, (("hill", 3, "tcp://10.0.0.3:7001", KEY), ("dale", 0, "tcp://dale:7001", KEY))
    ),
    "welcome-loss": hf.Welcome((1, 0), 9, 40, False, 17, 262_144, 512, passed=((0, 12), (3, 70_000)), absent=(38, 40)),
    "welcome-ended": hf.Welcome(
        (1, 1), 9, 40, False, 17, 1, 512, ended=((0, 0, ""), (5, 9, "weather/\u96ea")), reading=BIG
    ),
    "msg": hf.Msg(-2, 1_000, ((-1, BROADCAST), (300, MAIL), (1_000, REFUSED))),
    "msg-empty": hf.Msg(70_000, 70_003, ()),
    "msg-topic": hf.Msg(0, 9, ((2, SUBSCRIBED), (2, VALUE), (3, ONLINE), (9, BROADCAST))),
    "uack": hf.Uack(9, 41, 3, 70_000),
    "pong": hf.Pong(123_456),
    "pong-safe": hf.Pong(123_456, 37, ((0, 12), (3, 70_000))),
    "wait": hf.Wait("the station that holds your custody is down", 4, 1_795_000_000_000_000),
    "reset": hf.Reset(9),
    "stale": hf.Stale(10),
    "replaced": hf.Replaced(0),
    "refused": hf.Refused("too-large", "body of 300000 bytes, at most 262144 allowed"),
    "nosession": hf.NoSession(),
    "left": hf.Left(),
    "move": hf.Move((("dale", 0, "tcp://dale:7001", KEY),)),
    "ask": hf.Ask(9),
    "fates": hf.Fates(9, (38,)),
    "live-msg": hf.LiveMsg(70_003, (WALL, 3), "anna", 7, Kind.MAIL, "", 180_000, WALL + 20_000, b"now"),
    "live-refused": hf.LiveRefused("clock", "the clock of this station is 90 ms behind those of the others", 7),
    "unsubscribed": hf.Unsubscribed(9, ((5, 9, "weather/\u96ea"),)),
}
PEER_EXAMPLES: dict[str, sf.StationFrame] = {
    "link": sf.Link((1, 0), "fleet", "hill", 3, BIG, (1 << 64) - 1, 12, 70_000, 5, 3, 1_795_000_000_000_000, 41, 9),
    "wentback": sf.WentBack(13, 70_001, 42, 10),
    "nolink": sf.NoLink(),
    "rows-live": sf.DataBatch(
        3, (_row(70_001, Kind.MAIL, b"x"), _row(70_004, Kind.MAIL, b"y")),
        ((70_001, Past(((WALL, 5),), WALL - 500_001)), (70_004, Past())),
    ),
    "publish": Publish(BIG, 7_003, (0, 4)),
    "hearing": Hearing(BIG, ()),
    "live-clock": LiveClock(1_700_000_000_000_000, 86_400_000_000, -250, 86_399_000_000),
    "live-cast": LiveCast(
        WALL, 500_000, Past(((WALL - 9, 4), (WALL - 8, 3))), ((0, 12), (3, 70_000)), 200_000, MH[0], 7, Kind.TOPIC, 9,
        b"21.5",
    ),
    "refusal": sf.Refusal("group", "this is group fleet, not float"),
    "rows": sf.DataBatch(
        3,
        (
            _row(70_000, Kind.BROADCAST, encode_item(BROADCAST)),
            _row(70_001, Kind.MAIL, encode_item(MAIL), stamp=(), addressee=5 << 32 | 1),
            _row(70_003, Kind.EXPIRE, b"", number=0, taken=(0, 0)),
        ),
    ),
    "rows-steps": sf.DataBatch(
        3,
        (
            _row(70_000, Kind.MAIL, b"x", stamp=((9, 70),), hlc=0, steps=Steps(7_000, ((0, 1), (2, 31), (5, 32)))),
            _row(70_001, Kind.MAIL, b"y", stamp=(), hlc=0, steps=Steps(1, ())),
            _row(70_003, Kind.MAIL, b"z", stamp=(), steps=Steps(0, ((1023, (1 << 40) - 1),))),
        ),
    ),
    "rows-topics": sf.DataBatch(
        3,
        (
            _row(70_002, Kind.RETAINED, SPOOLED_VALUE, addressee=1 << 31),
            _row(70_004, Kind.OFFLINE, encode_item(ONLINE), stamp=(), taken=(WALL, 0), addressee=PRESENCE | MH[0]),
        ),
    ),
    "claims": sf.Claims(
        False, ((0, 9), (3, 70_000)), ((3, 69_999),), (), 70_000, 1_795_000_000_000_000, (), GroupView((1, 3, 5))
    ),
    "claims-full": sf.Claims(True, ((0, 9),), ((0, 9),), ((0, 8),), 0, 0, (1, 4), GroupView((1, 4, 9), serving=False)),
    "claims-closing": sf.Claims(False, (), (), (), 0, 0, (), CLOSING),
    "claims-gateway": sf.Claims(
        False, ((3, 70_000),), (), (), 0, 0, (), GroupView((1, 3, 5)),
        Beyond((1 << 48) - 1, ((0, 9), (3, 69_000)), ((3, 68_999),), (), (5,)),
    ),
    "nack": sf.Nack(3, 69_990, 69_999),
    "rows-lean": sf.DataBatch(
        3, (replace(_row(70_005, Kind.MAIL, b"", addressee=5 << 32 | 1), item=None, size=200_000, lean=True),)
    ),
    "pull": sf.Pull(3, WALL, (69_990, 70_005)),
    "bodies": sf.Body(3, WALL, (SpoolItem(3, 70_005, SPOOLED, len(SPOOLED)),), (69_990,)),
    "keep": sf.Keep(3, (69_990, 70_005)),
    "kept": sf.Kept(3, (70_005,)),
    "handoff-req": sf.HandoffReq(MH, 9, 8, -17, 42, (0, 2)),
    "state": sf.State(
        MH, 9, (4, 0, 70_000), (5, 1, 70_001), 41, (3, 70_000), False, 1_795_000_000_000_000, 2, {"b": b"", "aa": b"\1"}
    ),
    "spool-part": sf.SpoolPart(MH, 9, 1, 2, (SpoolItem(3, 70_000, SPOOLED, len(SPOOLED)), ON_TOPIC)),
    "handoff-nack": sf.HandoffNack(MH, 9, 1_700_000_000_000_000),
    "accept": sf.Accept(MH, 9),
    "released": sf.Released(MH, 9),
    "cancel": sf.Cancel(MH, 9, 10),
    "query": sf.Query(MH, 9),
    "probe": sf.Probe(MH, 9),
    "norec": sf.NoRec(MH, 9),
    "expire": sf.Expire(MH, 9, (4, 0, 70_000)),
    "xack": sf.XAck(MH, 9),
    "spooled": sf.Spooled((5 << 32 | 1, 0), 9),
    "claimed": sf.Claimed(MH, 9),
    "noted": sf.Noted(MH, 9),
    "group-query": sf.GroupQuery(MH, 9),
    "lan-packet": LanPacket(
        70_000, False, WALL, (), (0, 7, 255), ((LIVE.key, LIVE.version, Holders()), (DELETED.key, OLD, HOLDERS)),
        ("hosts/anna", "\u96ea"), (LIVE, DELETED),
    ),
    "lan-packet-sums": LanPacket(1, True, 0, tuple((1 << 64) - 1 if b == 3 else b % 24 for b in range(BUCKETS))),
    "lan-ack": LanAck(70_000),
    "mails": MailBatch(
        3, 5,
        (
            Mail(3, 5, ((3, 41), (5, 9), (1023, BIG)), ((3, 5, 40), (3, 6, 12), (6, 5, 70_000)), b"good morning"),
            Mail(3, 5, ((3, 42),), (), b""),
        ),
    ),
    "mail-acks": MailAcks((9, 41, BIG)),
    "mail-query": MailQuery(),
    "mail-none": MailNone(),
    "adopt": sf.Adopt(IMAGE, 2, 70_001, 1_700_000_000_000_000),
    "adopt-part": sf.AdoptPart(
        IMAGE.key, 1, 2,
        ((-1, SpoolItem(0, 1, b"", 0)), (5, SpoolItem(3, 70_000, SPOOLED, len(SPOOLED))), (6, ON_TOPIC)),
    ),
    "adopted": sf.Adopted(IMAGE.key),
    "reserve": sf.Reserve(6, (1 << 64) - 1),
    "reserved": sf.Reserved(6, (1 << 64) - 1, False, 9),
    "snapshot-req": sf.SnapshotReq(70_000, MH[0], 1 << 31),
    "snapshot": sf.Snapshot(
        70_000, MH[0], 6,
        ((70_001, _row(70_000, Kind.MAIL, encode_item(MAIL))), (70_007, _row(9, Kind.LEAVE, b"", slot=1, stamp=()))),
        (HostEntry(*MH, (WALL, 3, 69_990), False, (0, BIG), ((1, 40), (42, 99))), HostEntry(BIG, 0, (0, 0, 0), True)),
        (
            (LastValue(7, (WALL, 1, 0), 1, 9, 70_007, True), SpoolItem(1, 9, b"", 0)),
            (LastValue(1 << 31, (WALL, 3, 0), 3, 70_002, 70_000, False), replace(ON_TOPIC, topic=0, sub=(0, 0))),
        ),
        True, ((1, 9, 8), (3, 70_000, 0)), 70_008, WALL, VIEW,
    ),
    "snapshot-empty": sf.Snapshot(0, 0, 0, (), (), (), False, (), 0, 0, View((1,), serving=False)),
}  # fmt: skip
JOIN_EXAMPLES: dict[str, Join] = {
    "join": Join(
        (1, 0), "dale", BIG, "tcp://dale:7001", "tcp://10.0.0.4:7002", KEY.decode(), KEY[::-1].decode(), "0f" * 32
    ),
}  # fmt: skip
JOIN_ANSWER_EXAMPLES: dict[str, JoinFrame] = {
    "joined": Joined(6, "fleet", (replace(LIVE, key="stations/hill"), replace(LIVE, key="stations/dale"))),
    "join-refused": JoinRefused("slot", "station hill has not confirmed slot 6 yet", True),
}
LINKS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (UP, UP_EXAMPLES),
    (DOWN, DOWN_EXAMPLES),
    (PEER, PEER_EXAMPLES),
    (JOIN, JOIN_EXAMPLES),
    (JOIN_ANSWER, JOIN_ANSWER_EXAMPLES),
)


def readable(frame: Any, data: bytes) -> str:
    """The example for a person: its fields, then its bytes in lines of 32."""
    lines = [f"{type(frame).__name__}, {len(data)} bytes"]
    lines += [f"  {field.name} = {getattr(frame, field.name)!r}" for field in fields(frame)]
    lines += [data[at : at + 32].hex(" ") for at in range(0, len(data), 32)]
    return "\n".join(lines) + "\n"


def vectors() -> dict[str, str]:
    """Name of every vector file, and its content as the code of today makes it."""
    files = {}
    for link, examples in LINKS:
        for name, frame in examples.items():
            data = link.encode(frame)
            files[f"{name}.hex"] = data.hex() + "\n"
            files[f"{name}.txt"] = readable(frame, data)
    return files


def main() -> int:
    made = vectors()
    changed = 0
    for path in sorted({FOLDER / name for name in made} | {*FOLDER.glob("*.hex"), *FOLDER.glob("*.txt")}):
        old, new = path.read_text() if path.exists() else "", made.get(path.name, "")
        if old == new:
            continue
        changed += 1
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), path.name, "now"))
        if "--rewrite" in sys.argv:
            path.write_text(new) if new else path.unlink()
    print(f"{changed} of {len(made)} files differ")
    return 1 if changed and "--rewrite" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
