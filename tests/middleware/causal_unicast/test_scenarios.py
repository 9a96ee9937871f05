"""The nasty scenarios of causal-unicast.md A.d, and what else A.b says of order."""

from __future__ import annotations

from roamcast.middleware.causal_unicast.effects import Arrived, MailPersist
from roamcast.middleware.causal_unicast.records import MailImage, PutHeldMail, PutInbox
from roamcast.middleware.causal_unicast.station import MailStation

A, B, C, D = range(4)


def test_1_a_third_station_waits_for_slow_mail(office):
    net = office(3)
    net.send(A, C, b"slow")
    net.send(A, B, b"one")
    net.send(A, B, b"two")
    net.arrive(b"one", b"two")
    net.send(B, C, b"after")
    net.arrive(b"after")
    assert net.got(C) == [] and net.held(C) == [b"after"]
    net.arrive(b"slow")
    assert net.got(C) == [b"slow", b"after"]


def test_2_the_same_record_comes_by_two_ways(office):
    net = office(4)
    net.send(A, D, b"slow")
    net.send(A, B, b"to b")
    net.send(A, C, b"to c")
    net.arrive(b"to c")
    net.send(C, B, b"from c")
    net.arrive(b"to b", b"from c")
    assert net.records(B)[A, D] == 1
    net.send(B, D, b"after")
    net.arrive(b"after")
    assert net.got(D) == []
    net.arrive(b"slow")
    assert net.got(D) == [b"slow", b"after"]


def test_3_a_predecessor_of_somebody_who_never_spoke_to_the_carrier(office):
    net = office(4)
    net.send(A, D, b"slow")
    net.send(A, B, b"to b")
    net.arrive(b"to b")
    net.send(B, C, b"to c")
    net.arrive(b"to c")
    net.send(C, D, b"after")
    assert net.mails[b"after"].records == ((A, D, 1),)
    net.arrive(b"after")
    assert net.got(D) == []
    net.arrive(b"slow")
    assert net.got(D) == [b"slow", b"after"]


def test_4_the_second_overtakes_the_first_and_nothing_else_happens(office):
    net = office(2)
    net.send(A, B, b"first")
    net.send(A, B, b"second")
    net.arrive(b"second", b"first")
    assert net.got(B) == [b"first", b"second"]
    assert sorted(net.acked(B, A)) == [1, 2]


def test_5_a_chain_is_released_by_one_arrival_in_one_step(office):
    net = office(3)
    bodies = [b"%d" % number for number in range(8)]
    for body in bodies:
        net.send(A, C, body)
    net.send(A, B, b"to b")
    net.arrive(b"to b")
    net.send(B, C, b"last")
    net.arrive(b"last", *reversed(bodies[1:]))
    assert net.got(C) == []
    net.arrive(bodies[0])
    steps = [effect.writes for effect in net.effects if isinstance(effect, MailPersist)]
    assert len(steps) == 1
    assert sum(isinstance(write, PutInbox) for write in steps[0]) == 9
    assert net.got(C) == [*bodies, b"last"]
    assert [effect.item.position for effect in net.told[C]] == list(range(1, 10))


def test_6_an_answer_to_the_first_of_a_batch_has_both_in_its_past(office):
    net = office(3)
    net.send(A, B, b"first")
    net.send(A, B, b"second")
    net.arrive(b"second", b"first")
    answer = net.send(B, C, b"answer")
    assert dict(answer.vector)[A] == 2


def test_7_duplicates_of_delivered_of_held_and_of_late_mail(office):
    net = office(2)
    for body in (b"1", b"2", b"3"):
        net.send(A, B, body)
    net.arrive(b"3", b"3")
    assert net.held(B) == [b"3"] and net.acked(B, A) == [3, 3]
    net.arrive(b"1", b"1", b"3", b"2", b"2", b"1", b"3")
    assert net.got(B) == [b"1", b"2", b"3"]
    assert sorted(net.acked(B, A)) == [1, 1, 1, 2, 2, 3, 3, 3, 3]


def test_7_a_lost_acknowledgement_is_given_again(office):
    net = office(2)
    net.send(A, B, b"m")
    net.arrive(b"m")
    net.acks.clear()
    net.run(300_000)
    assert len([frame for _, _, frame in net.sent if frame == net.mails[b"m"]]) == 2
    net.arrive(b"m")
    net.acknowledge()
    assert net.images[A].outgoing[B] == {} and net.got(B) == [b"m"]
    assert net.up[A].next_deadline() is None


def test_8_a_crash_between_commit_and_transmission(office):
    net = office(2)
    net.doom[A] = 1  # the persist, and nothing behind it
    net.send(A, B, b"m")
    assert A not in net.up and b"m" not in net.mails
    net.start(A)
    net.arrive(b"m")
    assert net.got(B) == [b"m"]
    assert net.send(A, B, b"next").number == 2


def test_8_a_crash_before_the_commit_leaves_nothing(office):
    net = office(2)
    net.doom[A] = 0
    net.send(A, B, b"m")
    assert net.images[A] == MailImage()
    net.start(A)
    assert net.sent == []
    assert net.send(A, B, b"other").number == 1


def test_8_a_crash_between_delivery_and_the_application(office):
    """What was delivered is in the inbox with V and R of the same step; after the start it is there to be taken."""
    net = office(3)
    net.send(A, C, b"slow")
    net.send(A, B, b"m")
    net.doom[B] = 1
    net.arrive(b"m")
    assert B not in net.up and net.got(B) == [] and net.acked(B, A) == []
    net.start(B)
    assert [item.body for item in net.up[B].unread()] == [b"m"]
    assert net.records(B) == {(A, C): 1}
    net.arrive(b"m")  # repeated, since it was not acknowledged
    assert net.inbox(B) == [b"m"] and net.acked(B, A) == [2]
    net.send(B, C, b"after")
    net.arrive(b"after", b"slow")
    assert net.got(C) == [b"slow", b"after"]


def test_8_a_crash_before_the_application_has_said_that_it_took_something(office):
    net = office(2)
    for body in (b"1", b"2", b"3"):
        net.send(A, B, body)
        net.arrive(body)
    net.tick(B, MailStation.taken, 2)
    net.crash(B)
    net.start(B)
    assert [(item.position, item.body) for item in net.up[B].unread()] == [(3, b"3")]
    net.tick(B, MailStation.taken, 3)
    net.crash(B)
    net.start(B)
    assert net.up[B].unread() == ()
    net.send(A, B, b"4")
    net.arrive(b"4")
    assert net.told[B][-1].item.position == 4


def test_8_held_mail_outlives_a_crash_and_is_released_after_it(office):
    net = office(3)
    for body in (b"1", b"2", b"3"):
        net.send(A, B, body)
    net.arrive(b"3", b"2")
    net.crash(B)
    net.start(B)
    assert net.held(B) == [b"3", b"2"]
    net.arrive(b"1")
    assert net.got(B) == [b"1", b"2", b"3"] and net.held(B) == []


def test_9_a_station_whose_state_is_gone_is_found_out_at_its_link(office):
    """Else its mail would be taken for copies, and what it had acknowledged would be nowhere."""
    net = office(3)
    net.send(A, B, b"1")
    net.arrive(b"1")
    net.send(B, A, b"2")
    net.arrive(b"2")
    net.acknowledge()
    net.start(A, MailImage())
    assert net.up[B].is_older(A, net.up[A].sent_number, net.up[A].known_of(B))
    mail = net.send(A, B, b"3")
    net.hand(A, B, mail)
    assert net.got(B) == [b"1"], "taken for a copy of mail 1: this is what the link has to prevent"


def test_9_older_states_are_found_out_by_what_was_sent_and_by_what_was_taken(office):
    net = office(2)
    older = net.images[A].copy()
    net.send(B, A, b"1")
    net.arrive(b"1")
    net.acknowledge()
    net.start(A, older)
    assert net.up[A].sent_number == net.up[B].known_of(A) == 0
    assert net.up[B].is_older(A, net.up[A].sent_number, net.up[A].known_of(B)), "it had acknowledged mail 1"
    net = office(3)
    net.send(A, B, b"0")
    older = net.images[A].copy()
    net.send(A, C, b"1")
    net.send(A, B, b"2")
    net.arrive(b"2")
    net.start(A, older)
    assert net.held(B) == [b"2"]
    assert net.up[B].known_of(A) == 3, "held mail tells of it too"
    assert net.up[B].is_older(A, net.up[A].sent_number, net.up[A].known_of(B))


def test_9_a_true_state_is_not_accused(office):
    net = office(3)
    for source, target, body in [(A, B, b"1"), (B, C, b"2"), (C, A, b"3"), (A, C, b"4"), (B, A, b"5")]:
        net.send(source, target, body)
        net.arrive(body)
        net.acknowledge()
        net.crash(source)
        net.start(source)
        for one in net.slots:
            for other in net.slots:
                if one != other:
                    sent, known = net.up[other].sent_number, net.up[other].known_of(one)
                    assert not net.up[one].is_older(other, sent, known)


def test_10_an_old_record_does_not_come_back(office):
    """B knows that A's mail to C was delivered; then a late mail of D still carries its record."""
    net = office(4)
    net.send(A, C, b"x")
    net.send(A, D, b"to d")
    net.arrive(b"to d")
    net.send(D, B, b"late")
    assert (A, C, 1) in net.mails[b"late"].records
    net.arrive(b"x")
    net.send(C, B, b"news")
    net.arrive(b"news")
    assert net.records(B) == {}
    net.arrive(b"late")
    assert (A, C) not in net.records(B)
    assert net.got(B) == [b"news", b"late"]


def test_11_one_destination_down_for_a_day(office):
    """R grows to (N-1)^2 at most; nothing else waits."""
    net = office(5)
    down = 4
    for count in range(30):
        for source in range(4):
            net.send(source, down, b"down %d %d" % (source, count))
            target = (source + 1 + count % 3) % 4
            net.send(source, target, b"m %d %d" % (source, count))
            net.settle(source, target)
    for slot in range(4):
        assert net.held(slot) == []
        assert len(net.records(slot)) <= 16
        assert {sender for sender, receiver in net.records(slot) if receiver == down} == set(range(4))
    for mails in [net.images[slot].outgoing[down] for slot in (3, 1, 0, 2)]:
        for mail in reversed(list(mails.values())):
            net.tick(down, MailStation.receive, mail.src, mail)
    got = net.got(down)
    assert len(got) == 120 and net.held(down) == []
    for source in range(4):
        mine = [body for body in got if body.startswith(b"down %d " % source)]
        assert mine == [b"down %d %d" % (source, count) for count in range(30)]


def test_12_star_traffic_costs_the_hub_a_record_for_each_leaf(office):
    net = office(6)
    for count in range(10):
        for leaf in range(1, 6):
            net.send(0, leaf, b"out %d %d" % (leaf, count))
            net.send(leaf, 0, b"in %d %d" % (leaf, count))
        for leaf in range(1, 6):
            net.settle(0, leaf)
            net.settle(leaf, 0)
    assert set(net.records(0)) <= {(0, leaf) for leaf in range(1, 6)} | {(leaf, 0) for leaf in range(1, 6)}
    assert all(0 in key for leaf in range(1, 6) for key in net.records(leaf))


def test_mail_to_itself_takes_a_number_and_its_place(office):
    net = office(2)
    net.send(A, B, b"x")
    net.send(B, A, b"before")
    net.arrive(b"before")
    assert net.tick(A, MailStation.send, A, b"self") == 2
    steps = [effect for effect in net.effects if isinstance(effect, MailPersist | Arrived)]
    assert [type(effect) for effect in steps] == [MailPersist, Arrived]
    assert net.got(A) == [b"before", b"self"]
    assert net.records(A) == {(A, B): 1}
    net.arrive(b"x")
    assert dict(net.send(A, B, b"y").vector) == {A: 3, B: 1}
    net.arrive(b"y")
    assert net.got(B) == [b"x", b"y"]


def test_writes_are_what_has_changed(office):
    """R of (N-1)^2 records is not written again with every mail."""
    net = office(8)
    for source in range(8):
        for target in range(8):
            if source != target:
                net.send(source, target, b"%d to %d" % (source, target))
    for source in range(7):
        net.arrive(b"%d to 7" % source)
    assert len(net.records(7)) > 20
    net.send(7, 0, b"next")
    (persist,) = (effect for effect in net.effects if isinstance(effect, MailPersist))
    assert len(persist.writes) == 3
    net.send(7, 1, b"more")
    net.settle(0, 7)
    net.send(0, 7, b"m")
    net.arrive(b"m")
    (persist,) = (effect for effect in net.effects if isinstance(effect, MailPersist))
    assert len(persist.writes) < 8 and not any(isinstance(write, PutHeldMail) for write in persist.writes)
