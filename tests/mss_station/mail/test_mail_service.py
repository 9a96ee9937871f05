"""Station mail in a station's ticks: what leaves and is offered is durable; the group's view; the delivery log."""

from __future__ import annotations

from typing import Any

import pytest

from roamcast.middleware.causal_unicast.errors import MailRefused
from roamcast.middleware.causal_unicast.frames import MailBatch, MailNone, MailQuery
from roamcast.middleware.causal_unicast.records import Mail, MailAcks, PutCount
from roamcast.middleware.delivery_log import ARRIVED, POSTED
from roamcast.middleware.settings import MIB, SECOND
from roamcast.mss_station.errors import StoreWentBack
from roamcast.mss_station.mail_door import Taking
from roamcast.mss_station.mail_service import _frames


def mail(src: int, number: int, body: bytes = b"x", records: Any = (), **counts: int) -> Mail:
    vector = {src: number} | {int(slot[1:]): count for slot, count in counts.items()}
    return Mail(src, 1, tuple(sorted(vector.items())), records, body)


def batch(src: int, *mails: Mail) -> MailBatch:
    return MailBatch(src, 1, mails)


def test_all_mails_of_a_tick_to_one_station_go_in_one_frame_once_they_are_durable(station: Any) -> None:
    station.loop.open_tick()
    for body in (b"a", b"b", b"c"):
        station.mail.send("s2", body)
    station.mail.send("s3", b"d")
    assert station.loop.peers.sent == []
    station.loop.tick()
    frames = station.sent(MailBatch)
    assert [(slot, [one.body for one in frame.mails]) for slot, frame in frames] == [
        (2, [b"a", b"b", b"c"]),
        (3, [b"d"]),
    ]
    assert {one.number for _, frame in frames for one in frame.mails} == {1, 2, 3, 4}


def test_what_is_under_way_goes_in_one_frame_and_the_rest_when_that_is_acknowledged(station: Any) -> None:
    station.loop.open_tick()
    for _ in range(8):
        station.mail.send("s2", bytes(262_144))
    station.loop.tick()
    assert [len(frame.mails) for _, frame in station.sent(MailBatch)] == [3], "a mebibyte at a time"
    station.loop.now += SECOND
    station.loop.tick()
    assert [len(frame.mails) for _, frame in station.sent(MailBatch)] == [3], "said again"
    station.hear(2, MailAcks((1, 2, 3)))
    station.loop.tick()
    assert [frame.mails[0].number for _, frame in station.sent(MailBatch)] == [4]


def test_acknowledgements_are_cut_and_frames_stay_below_a_mebibyte() -> None:
    said = [MailAcks(tuple(range(1, 5_001))), *(Mail(1, 2, ((1, n),), (), bytes(262_144)) for n in range(1, 6))]
    frames = list(_frames(1, 2, said))
    assert [len(frame.numbers) for frame in frames if isinstance(frame, MailAcks)] == [4_096, 904]
    assert [len(frame.mails) for frame in frames if isinstance(frame, MailBatch)] == [3, 2]
    many = [Mail(1, 2, ((1, n),), (), b"") for n in range(1, 2_000)]
    assert [len(frame.mails) for frame in _frames(1, 2, many) if isinstance(frame, MailBatch)] == [1_024, 975]


def test_nothing_is_sent_to_a_station_that_is_not_linked_and_all_of_it_when_it_is(station: Any) -> None:
    station.loop.peers.unlinked.add(2)
    station.send("s2", b"x")
    assert station.loop.peers.sent == []
    station.loop.peers.unlinked.clear()
    station.loop.open_tick()
    station.mail.link_up(2)
    station.loop.tick()
    assert [frame.mails[0].body for _, frame in station.sent(MailBatch)] == [b"x"]
    assert station.mail.next_deadline() is not None


def test_what_comes_is_acknowledged_and_offered_once_it_is_durable(station: Any) -> None:
    station.hear(2, batch(2, mail(2, 1, b"one"), mail(2, 4, b"two")))
    assert station.offered() == []
    station.loop.tick()
    assert station.sent(MailAcks) == [(2, MailAcks((1, 4)))]
    assert [(one.station, one.position, one.number, one.body) for one in station.offered()] == [
        ("s2", 1, 1, b"one"), ("s2", 2, 4, b"two"),
    ]  # fmt: skip


def test_a_tick_that_is_rolled_back_has_neither_taken_nor_told_anything(station: Any) -> None:
    station.send("s2", b"before")
    station.sent(MailBatch)
    station.loop.open_tick()
    assert station.mail.send("s2", b"void") == 2
    station.hear(2, batch(2, mail(2, 1)))
    station.loop.tick(fails=True)
    assert station.offered() == [] and station.loop.peers.sent == [] and station.mail.sent_number == 1
    station.hear(2, batch(2, mail(2, 1)))
    station.loop.open_tick()
    assert station.mail.send("s3", b"again") == 2
    station.loop.tick()
    assert [one.position for one in station.offered()] == [1]
    bodies = {slot: [one.body for one in frame.mails] for slot, frame in station.sent(MailBatch)}
    assert bodies == {2: [b"before"], 3: [b"again"]}


def test_what_was_offered_is_not_offered_again_after_a_roll_back_but_after_a_start(station: Any) -> None:
    station.hear(2, batch(2, mail(2, 1), mail(2, 2)))
    station.loop.tick()
    station.loop.tick(fails=True)
    station.loop.tick()
    assert [one.position for one in station.offered()] == [1, 2]
    station.loop.open_tick()
    station.mail.take(Taking(1, 0, None))  # type: ignore[arg-type]
    station.loop.tick()
    assert [one.position for one in station.offered()] == [2]
    station.start()
    assert [one.position for one in station.offered()] == [2]


def test_a_mail_waits_for_the_one_before_it_whoever_brings_it(station: Any) -> None:
    later = mail(3, 1, b"later", ((2, 1, 1),), s2=1)
    station.hear(3, batch(3, later))
    station.loop.tick()
    assert station.offered() == [] and station.sent(MailAcks) == [(3, MailAcks((1,)))]
    assert station.mail.status()["held"] == {"mails": 1, "bytes": later.size}
    station.hear(2, batch(2, mail(2, 1, b"earlier")))
    station.loop.tick()
    assert [one.body for one in station.offered()] == [b"earlier", b"later"]


def test_the_log_tells_what_was_sent_behind_what_and_what_was_delivered(station: Any) -> None:
    station.send("s2", b"abc")
    station.hear(2, batch(2, mail(2, 1), mail(2, 2)))
    station.loop.tick()
    station.send("s3", b"")
    station.send("s1", b"to myself")
    station.send("s3", b"x")
    assert station.logged(POSTED) == [
        (1, 2, 0, 3, []), (2, 3, 2, 0, [2, 2]), (3, 1, 2, 9, ()), (4, 3, 3, 1, []),
    ]  # fmt: skip
    assert station.logged(ARRIVED) == [(1, 2, 1), (2, 2, 2), (3, 1, 3)]
    station.start()
    station.send("s3", b"")
    assert station.logged(POSTED) == [(5, 3, 3, 0, [2, 2])], "in full for the first mail of a life"


# ---- the group ----


def test_nothing_is_taken_of_a_closed_station_and_nothing_is_sent_to_it(station: Any) -> None:
    station.close_station(2)
    station.hear(2, batch(2, mail(2, 1)))
    station.loop.tick()
    assert station.offered() == [] and station.loop.peers.sent == []
    station.loop.open_tick()
    with pytest.raises(MailRefused, match="about to end") as caught:
        station.mail.send("s2", b"x")
    assert caught.value.code == "retired"


def test_mail_to_a_lost_station_is_given_up_when_its_end_is_final_and_that_is_told_until_it_was_heard(
    station: Any,
) -> None:
    for body in (b"a", b"b"):
        station.send("s2", body)
    station.close_station(2)
    station.loop.tick()
    assert station.mail.losses == {} and station.mail.core.unacknowledged(2) == 2
    station.close_station(2, final=True)
    station.loop.tick(fails=True)
    assert station.offered() == []
    for _ in range(2):
        station.loop.tick()
        assert [(one.station, one.lost, one.numbers) for one in station.offered()] == [("s2", 2, (1, 2))]
    station.start()
    assert [one.numbers for one in station.offered()] == [(1, 2)], "it was not acknowledged"
    assert station.mail.status()["lost"] == {"s2": 2} and station.tally.counters == {}
    station.loop.open_tick()
    station.mail.take(Taking(0, 2, None))  # type: ignore[arg-type]
    station.loop.tick()
    assert station.offered() == []
    station.start()
    assert station.offered() == []


def test_a_newcomer_that_has_not_joined_completely_takes_nothing_and_then_counts_who_ended_before(
    make_station: Any,
) -> None:
    newcomer = make_station(1, 3)
    newcomer.loop.core.newcomer = object()
    newcomer.hear(2, batch(2, mail(2, 1)))
    newcomer.loop.tick()
    assert newcomer.loop.peers.sent == [] and newcomer.mail.hindrance() == "this station has not joined completely"
    newcomer.loop.core.newcomer = None
    newcomer.close_station(3, final=True)
    newcomer.hear(2, batch(2, mail(2, 1, s3=7)))
    newcomer.loop.tick()
    assert [one.body for one in newcomer.offered()] == [b"x"]


def test_a_peer_that_knows_more_of_our_mail_than_we_ends_the_process(station: Any) -> None:
    station.hear(2, batch(2, mail(2, 1, s1=5)))
    station.loop.tick()
    assert [type(error) for error in station.loop.ended] == [StoreWentBack] and "--rejoin" in str(station.loop.ended[0])
    assert station.tally.counters == {"reject.mail-ahead": 1, "notice.store-went-back": 1}


def test_why_a_mail_is_refused_is_said_with_names(station: Any) -> None:
    station.directory.states |= {"s4": "active", "s5": "lost", "s3": "retiring"}
    station.directory.values["mail-bytes"] = MIB
    station.mail.configure()
    station.loop.open_tick()

    def refused(to: str, body: bytes = b"x") -> tuple[str, str]:
        with pytest.raises(MailRefused) as caught:
            station.mail.send(to, body)
        return caught.value.code, str(caught.value)

    assert refused("s9")[0] == "unknown-station"
    assert refused("s5") == ("retired", "station s5 is no member any more: it is lost")
    assert refused("s3") == ("retired", "station s3 is being retired: no mail is taken for it any more")
    assert refused("s4")[0] == "not-now"
    assert refused("s2", bytes(262_145))[0] == "too-large"
    for _ in range(3):
        station.mail.send("s2", bytes(262_144))
    code, text = refused("s2", bytes(262_144))
    assert code == "mailbox-full" and "the mailbox of s2 here is full" in text and "mail-bytes" in text
    station.directory.values["mail-bytes"] = 2 * MIB
    station.mail.configure()
    assert station.mail.send("s2", bytes(262_144)) == 4


def test_a_full_inbox_is_told_to_its_own_program_and_leaves_others_mail_with_them(station: Any) -> None:
    station.directory.values["mail-inbox-bytes"] = MIB
    station.mail.configure()
    for _ in range(4):
        station.send("s1", bytes(262_144))
    station.loop.open_tick()
    with pytest.raises(MailRefused, match="mss-station messages"):
        station.mail.send("s1", b"x")
    station.hear(2, batch(2, mail(2, 1)))
    station.loop.tick()
    assert station.loop.peers.sent == [] and station.mail.status()["postponed"] == 1
    station.loop.open_tick()
    station.mail.take(Taking(1, 0, None))  # type: ignore[arg-type]
    station.hear(2, batch(2, mail(2, 1)))
    station.loop.tick()
    assert station.sent(MailAcks) == [(2, MailAcks((1,)))]


# ---- an orderly retirement ----


def retire(station: Any) -> None:
    view = station.loop.core.ledger.view
    station.loop.core.ledger.view = type(view)(view.members, retiring=2)


def test_a_station_that_is_retired_waits_for_all_its_mail_and_says_for_what(station: Any) -> None:
    station.send("s2", b"x")
    station.hear(2, batch(2, mail(2, 1), mail(2, 3, b"held", ((3, 1, 1),), s3=1)))
    station.loop.tick()
    retire(station)
    station.loop.tick()
    assert station.loop.obstacles == (
        "1 station mails to s2 are not acknowledged by it",
        "1 station mails wait here for others that come before them",
        "1 station mails were not taken yet; mss-station messages DIR prints and takes it",
        "s2 has not said yet that it has no station mail for this one",
        "s3 has not said yet that it has no station mail for this one",
    )
    with pytest.raises(MailRefused, match="is being retired"):
        station.mail.hindrance()
    station.loop.open_tick()
    station.mail.link_up(3)
    station.loop.tick()
    assert station.sent(MailQuery) == [(3, MailQuery())], "at once"
    station.mail.look()
    station.hear(2, MailAcks((1,)))
    station.hear(3, batch(3, mail(3, 1)))
    station.loop.tick()
    assert station.sent(MailQuery) == [(2, MailQuery()), (3, MailQuery())]
    station.loop.open_tick()
    station.mail.take(Taking(3, 0, None))  # type: ignore[arg-type]
    for slot in (2, 3):
        station.hear(slot, MailNone())
    station.loop.tick()
    station.loop.tick()
    assert station.loop.obstacles == ()


def test_a_station_says_that_it_has_no_mail_only_when_it_takes_none_any_more_and_all_is_acknowledged(
    station: Any,
) -> None:
    station.send("s2", b"x")

    def asked() -> list[tuple[int, Any]]:
        station.hear(2, MailQuery())
        station.loop.tick()
        return station.sent(MailNone)

    assert asked() == []
    station.hear(2, MailAcks((1,)))
    assert asked() == [], "a program could send more"
    station.directory.states["s2"] = "retiring"
    assert asked() == [(2, MailNone())]
    station.loop.open_tick()
    station.mail.link_up(2)
    station.loop.tick()
    assert station.sent(MailNone) == [(2, MailNone())], "it may have asked before it could be answered"


def test_status_tells_what_waits_for_whom_and_since_when(station: Any) -> None:
    station.loop.now = SECOND
    station.send("s2", b"x")
    station.loop.now = 2 * SECOND
    station.send("s2", b"x")
    told = station.mail.status()
    (waiting,) = told["waiting"]
    assert waiting["station"] == "s2" and waiting["mails"] == 2 and waiting["oldest"] == 1
    assert waiting["since"] == 1_000_000 + SECOND
    station.hear(2, MailAcks((1,)))
    station.loop.tick()
    assert station.mail.status()["waiting"][0] | {"bytes": 0} == {
        "station": "s2", "slot": 2, "mails": 1, "bytes": 0, "oldest": 2, "since": 1_000_000 + 2 * SECOND,
    }  # fmt: skip


# ---- field cases ----


def test_the_same_words_twice_are_two_mails(station: Any) -> None:
    """BL-08."""
    for _ in range(2):
        station.send("s1", b"the same")
        station.hear(2, batch(2, mail(2, 1, b"other"), mail(2, 2, b"other")))
        station.loop.tick()
    assert [one.body for one in station.offered()] == [b"the same", b"other", b"other", b"the same"]


@pytest.mark.parametrize("start", [(1 << 16) - 3, (1 << 31) - 3, (1 << 32) - 3, (1 << 53) - 3, (1 << 63) - 4])
def test_numbers_go_on_at_the_bounds_of_words_and_end_with_a_refusal(station: Any, start: int) -> None:
    """BL-20, with one mail that is never acknowledged."""
    station.send("s2", b"never acknowledged")
    station.store.commit([PutCount(1, start)])
    station.start()
    sent = []
    for _ in range(5):
        station.loop.open_tick()
        try:
            sent.append(station.mail.send("s3", b"x"))
        except MailRefused as refused:
            assert refused.code == "numbers-used-up"
        station.loop.tick()
    assert sent == [number for number in range(start + 1, start + 6) if number < 1 << 63]
    station.hear(3, MailAcks(tuple(sent)))
    station.loop.tick()
    station.start()
    assert station.mail.core.unacknowledged(2) == 1 and station.mail.core.unacknowledged(3) == 0
    assert station.mail.sent_number == sent[-1] and station.mail.acknowledged_by(3) == sent[-1]


def test_what_was_acknowledged_is_not_given_again_after_a_crash_right_behind_it(station: Any) -> None:
    """BL-05."""
    station.hear(2, batch(2, *(mail(2, n) for n in range(1, 51))))
    station.loop.tick()
    station.loop.open_tick()
    station.mail.take(Taking(50, 0, None))  # type: ignore[arg-type]
    station.loop.tick()
    station.start()
    assert station.offered() == []
    station.hear(2, batch(2, mail(2, 50)))
    station.loop.tick()
    assert station.offered() == [] and station.sent(MailAcks) == [(2, MailAcks((50,)))]
