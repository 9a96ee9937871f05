"""Topics of the directory: who may, by number, whatever comes first; and at what cost."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any

import pytest

from roamcast.middleware.lan_update.records import Entry, Version
from roamcast.middleware.topics import Topics
from roamcast.mss_station import schema, topic_schema
from roamcast.mss_station.directory import Change, Fault, LanDirectory, TopicsChanged
from roamcast.mss_station.schema import HostCard
from roamcast.mss_station.topic_schema import RECEIVE, RIGHTS, SEND, TopicCard, group_key, right_key, topic_key
from roamcast.transport.curve import generate
from roamcast.transport.map_codec import encode_map
from roamcast.transport.station_files import StationCard

KEYS = dict(zip("abcd", (generate().public for _ in range(4)), strict=True))
OWN = StationCard("hill", 3, "fleet", 9, "tcp://10.0.0.3:1", "tcp://10.0.0.3:2", generate().public, "ab" * 32)
NUMBER = {name: 3 << 32 | n for n, name in enumerate(KEYS, start=1)}


def entry(key: str, value: bytes | None) -> Entry:
    return Entry(key, Version(1, 0, "hill", 7), value)


def host(name: str, key: str = "") -> Entry:
    return entry(schema.host_key(name), schema.host_value(HostCard(name, NUMBER[name], key or KEYS[name], 3)))


def revoked(name: str) -> Entry:
    return entry(schema.revocation_key(name, KEYS[name]), schema.revocation_value())


def topic(name: str, number: int, *lists: str) -> Entry:
    return entry(topic_key(name), topic_schema.topic_value(TopicCard(name, number, lists)))


def right(name: str, which: str, *who: str) -> Entry:
    return entry(right_key(name, which), topic_schema.who_value(who))


def group(name: str, *hosts: str) -> Entry:
    return entry(group_key(name), topic_schema.who_value(hosts))


def gone(one: Entry) -> Entry:
    return replace(one, value=None)


def directory(*entries: Entry) -> LanDirectory:
    return LanDirectory(OWN, {each.key: each for each in entries})


HOSTS = [host(name) for name in "abc"]


def may(topics: Topics, number: int) -> tuple[str, str]:
    """Who may send, and receive."""
    senders = "".join(name for name in KEYS if topics.may_send(number, NUMBER[name]))
    return senders, "".join(name for name in KEYS if topics.may_receive(number, NUMBER[name]))


def test_a_topic_without_lists_is_everybodys() -> None:
    topics = directory(*HOSTS, topic("t", 7)).topics()
    assert topics.number("t", {}) == 7 and topics.name(7) == "t" and len(topics) == 1
    assert may(topics, 7) == ("abcd", "abcd") and may(topics, 8) == ("", "")


def test_hosts_groups_and_everybody_in_lists() -> None:
    found = directory(
        *HOSTS, topic("t", 7, SEND, RECEIVE), topic("u", 8, SEND, RECEIVE), group("g", "a", "b"),
        right("t", SEND, "@g"), right("t", RECEIVE, "c", "@g"), right("u", SEND, "*"), right("u", RECEIVE),
    )  # fmt: skip
    assert may(found.topics(), 7) == ("ab", "abc") and may(found.topics(), 8) == ("abcd", "")
    assert found.faults == []


def test_a_list_that_has_not_arrived_yet_or_is_gone_before_its_topic_lets_nobody_in() -> None:
    found = directory(*HOSTS, topic("t", 7, RECEIVE))
    assert may(found.topics(), 7) == ("abcd", "")
    found.apply(right("t", RECEIVE, "a"))
    assert may(found.topics(), 7) == ("abcd", "a")
    found.apply(gone(right("t", RECEIVE)))
    assert may(found.topics(), 7) == ("abcd", "")
    found.apply(topic("t", 7))
    assert may(found.topics(), 7) == ("abcd", "abcd")


@pytest.mark.parametrize("value", [b"\xff", encode_map({"who": "a"}), encode_map({"who": [7]}), encode_map({})])
def test_a_list_that_cannot_be_read_lets_nobody_in(value: bytes) -> None:
    found = directory(*HOSTS, topic("t", 7), right("t", SEND, "a"), group("g", "b"), right("t", RECEIVE, "@g", "c"))
    changes = found.apply(entry(right_key("t", SEND), value))
    assert may(found.topics(), 7) == ("", "bc") and TopicsChanged() in changes
    (fault,) = [change for change in changes if isinstance(change, Fault)]
    assert "topics/t/send" in fault.text and "nobody stands in it until it is put right" in fault.text
    found.apply(entry(group_key("g"), value))
    assert may(found.topics(), 7) == ("", "c")
    found.apply(right("t", SEND, "b"))
    assert may(found.topics(), 7) == ("b", "c") and len(found.faults) == 1


def test_a_topic_that_cannot_be_read_is_none() -> None:
    found = directory(*HOSTS, topic("t", 7))
    found.apply(entry(topic_key("t"), encode_map({"number": 0})))
    assert found.topics().number("t", {}) == 0 and not found.topics().exists(7)


def test_names_of_nobody_are_told_and_count_once_there_is_somebody() -> None:
    found = directory(*HOSTS, topic("t", 7, SEND), right("t", SEND, "a", "d", "@g"))
    assert may(found.topics(), 7)[0] == "a"
    assert found.faults == ["topics/t/send names @g, d: there is nobody of that name yet"]
    assert TopicsChanged() in found.apply(host("d"))
    assert may(found.topics(), 7)[0] == "ad"
    found.apply(group("g", "b", "x"))
    assert may(found.topics(), 7)[0] == "abd"
    assert found.faults == ["groups/g names x: there is nobody of that name yet"]
    found.apply(gone(group("g")))
    assert may(found.topics(), 7)[0] == "ad"
    assert found.faults == ["topics/t/send names @g: there is nobody of that name yet"]


def test_a_revoked_host_has_no_rights_and_is_no_fault() -> None:
    found = directory(*HOSTS, topic("t", 7), right("t", SEND, "a", "b"), group("g", "a"), right("t", RECEIVE, "@g"))
    assert TopicsChanged() in found.apply(revoked("a"))
    assert may(found.topics(), 7) == ("b", "") and found.faults == []


def test_a_host_that_stands_in_no_list_changes_no_topics() -> None:
    found = directory(*HOSTS, topic("t", 7), right("t", SEND, "a"))
    before = found.topics()
    assert TopicsChanged() not in found.apply(host("d")) + found.apply(revoked("b"))
    assert found.topics() is before


def test_of_two_topics_with_one_number_the_first_name_holds() -> None:
    for order in (("t", "u"), ("u", "t")):
        found = directory(*HOSTS, *(topic(name, 7) for name in order), right("u", SEND, "a"))
        assert found.topics().number("t", {}) == 7 and found.topics().number("u", {}) == 0
        assert found.topics().name(7) == "t" and may(found.topics(), 7)[0] == "abcd"
        (fault,) = found.faults
        assert fault.startswith("topics/u has the number of topics/t, which keeps it")
        found.apply(gone(topic("t", 7)))
        assert found.topics().number("u", {}) == 7 and may(found.topics(), 7)[0] == "a" and found.faults == []


def test_a_removed_topic_is_still_called_by_its_name_and_one_added_later_is_another() -> None:
    found = directory(*HOSTS, topic("t", 7))
    found.topics()
    found.apply(gone(topic("t", 7)))
    found.apply(topic("u", 8))
    assert found.topics().name(7) == "t" and not found.topics().exists(7)
    found.apply(topic("t", 9))
    assert found.topics().number("t", {}) == 9 and found.topics().name(7) == "t"
    assert found.book.numbers == {7, 8, 9}


def test_a_list_without_its_topic_is_told() -> None:
    found = directory(*HOSTS, right("t", SEND, "a"))
    assert found.faults == ["topics/t/send is there without its topic"] and len(found.topics()) == 0
    found.apply(topic("t", 7, SEND))
    assert found.faults == [] and may(found.topics(), 7)[0] == "a"


def test_presence_is_off_unless_it_is_set() -> None:
    found = directory()
    assert not found.topics().presence
    changes = found.apply(entry("settings/presence", encode_map({"value": "on"})))
    assert TopicsChanged() in changes and found.topics().presence
    assert found.apply(entry("settings/presence", None)) and not found.topics().presence


def test_what_is_of_no_known_form_is_left_alone() -> None:
    found = directory()
    for key in ("topics/t/class", "topics/t/send/x", "topics/t/"):
        assert found.apply(entry(key, b"\xff")) == found.apply(entry(key, None)) == []
    assert any(isinstance(change, Fault) for change in found.apply(topic("$presence", 7)))
    assert len(found.topics()) == 0


# ---- the same whatever comes first ----


def any_entry(rng: random.Random) -> Entry:
    names, topics, groups = ["a", "b", "c", "d"], ["t", "u", "v"], ["g", "h"]
    match rng.randrange(6):
        case 0:
            one = host(rng.choice(names), KEYS[rng.choice(names)])
        case 1:
            one = revoked(rng.choice(names))
        case 2:
            one = topic(rng.choice(topics), rng.randint(1, 3), *rng.sample(RIGHTS, rng.randint(0, 2)))
        case 3 | 4:
            who = [*names, "@g", "@h", "x", *(("*",) if rng.random() < 0.2 else ())]
            one = right(rng.choice(topics), rng.choice(RIGHTS), *sorted(rng.sample(who, rng.randint(0, 3))))
        case _:
            one = group(rng.choice(groups), *sorted(rng.sample([*names, "x"], rng.randint(0, 3))))
    return replace(one, value=rng.choice([None, b"\xff"])) if rng.random() < 0.25 else one


def plainly(entries: dict[str, Entry]) -> dict[str, tuple[int, str, str]]:
    """Topic -> number, senders, receivers, as the rules say it, worked out for each anew."""
    hosts = directory(*entries.values())  # of hosts only
    live = {name for name in KEYS if hosts.named(name) is not None}

    def lists(key: str) -> set[str] | None:
        value = entries[key].value if key in entries else None
        if value is None:
            return None
        return set() if value == b"\xff" else set(topic_schema.read_who(key, value))

    def members(key: str, lists_there: tuple[str, ...], which: str) -> str:
        who = lists(key)
        if who is None:
            return "" if which in lists_there else "".join(KEYS)
        if "*" in who:
            return "".join(KEYS)
        for name in [name for name in who if name.startswith("@")]:
            who |= lists(group_key(name[1:])) or set()
        return "".join(name for name in KEYS if name in who & live)

    found: dict[str, tuple[int, str, str]] = {}
    cards = {}
    for key in sorted(entries):
        value = entries[key].value
        if key.startswith("topics/") and key.count("/") == 1 and value not in (None, b"\xff"):
            card = topic_schema.read_topic(key, value or b"")
            if card.number not in [other.number for other in cards.values()]:
                found[card.name] = (card.number, *(members(right_key(card.name, w), card.lists, w) for w in RIGHTS))
            cards[card.name] = card
    return found


def said(topics: Topics) -> dict[str, tuple[int, str, str]]:
    numbers = {name: topics.number(name, {}) for name in "tuv"}
    return {name: (number, *may(topics, number)) for name, number in numbers.items() if number}


@pytest.mark.parametrize("_", range(40))
def test_topics_are_what_the_entries_say_in_any_order(_: int) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    rng = random.Random(seed)
    found, held = directory(), dict[str, Entry]()
    for _step in range(60):
        one = any_entry(rng)
        held[one.key] = one
        before = said(found.topics())
        changes: list[Change] = found.apply(one)
        after = said(found.topics())
        assert after == plainly(held)
        assert before == after or TopicsChanged() in changes, "a station that only hears of changes would not know"
    again = directory(*rng.sample(list(held.values()), min(5, len(held))))
    again.reload(dict(rng.sample(list(held.items()), len(held))))
    assert said(again.topics()) == said(found.topics()) and again.faults == found.faults


# ---- cost ----


def test_ten_thousand_topics_are_worked_out_once_and_a_change_costs_what_it_touches() -> None:
    """Measured: 0.5 s for all, 6 ms for one. Ten times that is allowed."""
    count = 10_000
    entries: list[Entry] = [*HOSTS, group("g", "a", "b")]
    for i in range(count):
        entries += [topic(f"t{i}", i + 1, RECEIVE), right(f"t{i}", RECEIVE, "@g", "c")]
    found = directory()
    before = time.thread_time()
    for one in entries:
        found.apply(one)
    topics = found.topics()
    assert time.thread_time() - before < 10
    assert len(topics) == count and may(topics, count)[1] == "abc"
    before = time.thread_time()
    found.apply(right("t5", RECEIVE, "a"))
    assert may(found.topics(), 6)[1] == "a"
    assert time.thread_time() - before < 0.1


def test_lists_that_share_a_group_share_its_hosts() -> None:
    found: Any = directory(*HOSTS, group("g", "a", "b"))
    for i in range(3):
        found.apply(topic(f"t{i}", i + 1, SEND))
        found.apply(right(f"t{i}", SEND, "@g", *(["c"] if i else [])))
    first, *others = [one.send for one in sorted(found.book.topics(), key=lambda one: one.name)]
    assert all(any(part is first for part in other.parts) for other in others)
