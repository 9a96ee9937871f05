"""Station mail in the store: the same as `MailImage` after the same writes; what has changed is not given out."""

from __future__ import annotations

import os
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from roamcast.middleware.causal_unicast.records import (
    DropHeldMail,
    DropInbox,
    DropOutgoing,
    DropSRecord,
    InboxItem,
    Mail,
    MailImage,
    MailWrite,
    PutCount,
    PutHeldMail,
    PutInbox,
    PutOutgoing,
    PutRetired,
    PutSRecord,
)
from roamcast.middleware.membership.view import View
from roamcast.middleware.writes import DropSnapshot, PutStreams, PutView
from roamcast.mss_station.errors import StoreDamaged
from roamcast.mss_station.store import STORE_NAME, DropMailLost, PutMailLost, StationIdentity, Store

OWN = 1
SLOTS = (2, 3, 9, 1023)
BIG = (1 << 63) - 1


def form(image: MailImage) -> dict[str, Any]:
    """Without what says nothing."""
    outgoing = {peer: mails for peer, mails in image.outgoing.items() if mails}
    return {name: getattr(image, name) for name in image.__slots__} | {"outgoing": outgoing}


class Workload:
    """Random writes as a core could ask for them, and in orders in which it never would; `image` is what they make."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.image = MailImage()
        self.number = 0

    def batch(self) -> list[MailWrite]:
        writes = []
        for _ in range(self.rng.choice((1, 3, 10, 30))):
            write = self.one()
            if write is not None:
                writes.append(write)
                self.image.apply(write)
        return writes

    def one(self) -> MailWrite | None:
        rng, image, slot = self.rng, self.image, self.rng.choice(SLOTS)
        match rng.randrange(20):
            case 0 | 1:
                return PutCount(slot, rng.choice((1, 70_000, BIG)))
            case 2 | 3 | 4:
                return PutSRecord(rng.choice((OWN, *SLOTS)), slot, rng.randrange(1, BIG))
            case 5 if image.records:
                return DropSRecord(*rng.choice(sorted(image.records)))
            case 6 | 7 | 8 | 9:
                self.number += rng.choice((1, 1, 5))
                return PutOutgoing(self.mail(OWN, slot, self.number))
            case 10 | 11 if mails := image.outgoing.get(slot):
                return DropOutgoing(slot, tuple(rng.sample(sorted(mails), rng.randint(1, min(3, len(mails))))))
            case 12 | 13:
                return PutHeldMail(self.mail(slot, OWN, rng.randrange(1, 50)))
            case 14 if image.held:
                return DropHeldMail(*rng.choice(sorted(image.held)))
            case 15 | 16 | 17:
                return PutInbox(InboxItem(image.inbox_last + 1, slot, rng.randrange(1, 99), rng.randbytes(30)))
            case 18:
                return DropInbox(rng.randint(image.inbox_taken, image.inbox_last))
            case 19 if rng.random() < 0.2:
                return PutRetired(slot)
        return None

    def mail(self, src: int, dst: int, number: int) -> Mail:
        rng = self.rng
        vector = {slot: rng.randrange(1, BIG) for slot in (OWN, *SLOTS) if rng.random() < 0.5} | {src: number}
        pairs = [(k, to, rng.randrange(1, BIG)) for k in SLOTS for to in SLOTS if k < to and rng.random() < 0.3]
        return Mail(src, dst, tuple(sorted(vector.items())), tuple(pairs), rng.choice((b"", rng.randbytes(9_000))))


@pytest.mark.parametrize("seed", [1, 2, 3, None])
def test_same_as_the_image_after_random_writes(directory: Path, identity: StationIdentity, seed: int | None) -> None:
    known, seed = seed is not None, int.from_bytes(os.urandom(4), "big") if seed is None else seed
    print("seed", seed)
    workload = Workload(seed)
    seen: set[str] = set()
    store = Store.open(directory, identity, durability="process")
    for _ in range(60):
        store.commit(workload.batch())
        if workload.rng.random() < 0.1:
            store.close()
            store = Store.open(directory, identity, durability="process")
        assert form(store.load_mail(OWN)) == form(workload.image)
        seen |= {name for name, value in form(workload.image).items() if value}
    store.close()
    assert not known or seen == set(MailImage.__slots__)


def test_a_tick_may_take_send_and_drop_one_mail(directory: Path, identity: StationIdentity) -> None:
    mail, item = Mail(OWN, 2, ((1, 1),), (), b"x"), InboxItem(1, 2, 7, b"y")
    with Store.open(directory, identity) as store:
        store.commit([PutOutgoing(mail), DropOutgoing(2, (1,)), PutInbox(item), DropInbox(1)])
        image = store.load_mail(OWN)
        assert (image.outgoing, image.inbox, image.inbox_last, image.inbox_taken) == ({}, {}, 1, 1)
        assert image.acknowledged == {2: 1}
        store.commit([DropOutgoing(2, (1,))])
        assert store.load_mail(OWN).acknowledged == {2: 1}


def test_losses_are_kept_until_they_were_told(directory: Path, identity: StationIdentity) -> None:
    with Store.open(directory, identity) as store:
        store.commit([PutMailLost(2, (1, BIG)), PutMailLost(3, (7,)), PutRetired(2)])
        assert store.load_mail_lost() == {2: (1, BIG), 3: (7,)}
        store.commit([DropMailLost(2)])
    with Store.open(directory, identity) as store:
        assert store.load_mail_lost() == {3: (7,)}


def test_a_newcomers_snapshot_leaves_mail_as_it_is(directory: Path, identity: StationIdentity) -> None:
    with Store.open(directory, identity) as store:
        store.commit([PutCount(OWN, 3), PutOutgoing(Mail(OWN, 2, ((1, 3),), (), b"x"))])
        before = store.load_mail(OWN)
        store.commit([DropSnapshot(), PutStreams(((2, 9, 9, 9),), 9, 9), PutView(View((1, 2)))])
        assert store.load_mail(OWN) == before


HEADER, CONTENT = b"\x07\x6d\x5f\x4e\x3d\x2c\x1b\x0a", b"head of it" + bytes(range(256)) * 20


def damaged(directory: Path, identity: StationIdentity) -> str:
    with Store.open(directory, identity) as store, pytest.raises(StoreDamaged) as caught:
        store.load_mail(OWN)
        store.load_mail_lost()
    return str(caught.value)


@pytest.mark.parametrize("part", [HEADER, CONTENT[:10]])
@pytest.mark.parametrize("where", ["out", "held", "inbox"])
def test_a_flipped_bit_of_a_mail_is_never_given_out(
    directory: Path, identity: StationIdentity, where: str, part: bytes
) -> None:
    count = int.from_bytes(HEADER, "little")
    with Store.open(directory, identity) as store:
        match where:
            case "out":
                store.commit([PutOutgoing(Mail(OWN, 2, ((1, 5), (3, count)), (), CONTENT))])
            case "held":
                store.commit([PutHeldMail(Mail(2, OWN, ((2, 5), (3, count)), (), CONTENT))])
            case "inbox":
                store.commit([PutInbox(InboxItem(1, 2, count, HEADER + CONTENT))])
        store.load_mail(OWN)
    content = bytearray((directory / STORE_NAME).read_bytes())
    assert content.count(part) == 1
    content[content.index(part)] ^= 1
    (directory / STORE_NAME).write_bytes(content)
    assert "station mail" in damaged(directory, identity)


@pytest.mark.parametrize(
    "change",
    [
        "mail_count SET count = count + 4",
        "mail_count SET slot = slot + 4",
        "mail_record SET number = number + 4",
        "mail_record SET receiver = receiver + 4",
        "mail_out SET addressee = addressee + 4",
        "mail_out SET number = number + 4",
        "mail_out SET content = 'text'",
        "mail_held SET sender = sender + 4",
        "mail_inbox SET sender = sender + 4",
        "mail_inbox SET position = position + 4",
        "mail_ends SET last = last + 4",
        "mail_ends SET taken = taken + 4",
        "mail_acked SET number = number + 4",
        "mail_retired SET slot = slot + 4",
        "mail_lost SET numbers = x'0800000000000000'",
    ],
)
def test_a_changed_number_is_refused(directory: Path, identity: StationIdentity, change: str) -> None:
    with Store.open(directory, identity) as store:
        store.commit(
            [
                PutCount(2, 70_000), PutSRecord(2, 3, 7), PutOutgoing(Mail(OWN, 2, ((1, 5),), (), b"x")),
                PutHeldMail(Mail(2, OWN, ((2, 5),), (), b"x")), PutInbox(InboxItem(1, 2, 4, b"x")),
                PutInbox(InboxItem(2, 2, 4, b"x")), DropInbox(1), DropOutgoing(3, (2,)), PutRetired(9),
                PutMailLost(9, (4,)),
            ]
        )  # fmt: skip
        store.load_mail(OWN)
    connection = sqlite3.connect(directory / STORE_NAME)
    assert connection.execute(f"UPDATE {change}").rowcount == 1
    connection.commit()
    connection.close()
    assert "checksum is wrong" in damaged(directory, identity)
