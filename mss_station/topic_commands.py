"""`mss-station topics ...` and `mss-station groups ...`: what hosts may talk on, who may send, and who may receive."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from roamcast.middleware.lan_update.records import Version
from roamcast.mss_station import topic_schema
from roamcast.mss_station.asking import change, look
from roamcast.mss_station.config_commands import ARRIVES
from roamcast.mss_station.config_text import shown
from roamcast.mss_station.control import ControlError, Json, NotRunning, ask
from roamcast.mss_station.tables import columns
from roamcast.mss_station.topic_book import TopicBook
from roamcast.mss_station.topic_schema import RECEIVE, RIGHTS, SEND, names_in, shown_who
from roamcast.mss_station.written import Written, look_up, remark_unseen

RIGHTS_EXPLAINED: Final = (
    "A right without a list is everybody's: '*'. A list says who may, never who may not; it holds names of hosts, '@' "
    "and the name of a group, or '*' for every host, also those enrolled later. A name that nobody has yet counts once "
    "somebody has it."
)
GRANT: Final = (
    "More hosts or groups may. As long as everybody may, this is refused, for nothing would change: with --only "
    "nobody may but those named, whoever could before. '*' gives the right back to everybody."
)
REVOKE: Final = (
    "Hosts or groups may not any more. What they are subscribed to ends at every station as soon as it learns of it; "
    "what has been given cannot be taken back. Who has the right through a group keeps it, so that is refused: see "
    "groups drop. So is taking it from one while everybody has it: first say who may, with topics grant --only. '*' "
    "leaves nobody."
)
Add = Callable[..., Any]


def add_parsers(commands: Any) -> None:
    """Add `topics` and `groups` to the commands."""
    _add_topics(_adder(commands, "topics", "what hosts may talk on, and who may"))
    _add_groups(_adder(commands, "groups", "hosts that lists of rights name together"))


def _adder(commands: Any, group: str, about: str) -> Add:
    parsers = commands.add_parser(group, help=about).add_subparsers(title="commands", required=True)

    def add(name: str, action: Callable[[argparse.Namespace], str], about: str, example: str, more: str = "") -> Any:
        one = parsers.add_parser(
            name,
            help=about,
            description=f"{about[:1].upper()}{about[1:]}. {more}",
            epilog=f"example: mss-station {group} {name} /var/lib/s1 {example}",
        )
        one.add_argument("dir", type=Path, metavar="DIR")
        one.add_argument("--json", action="store_true", help="for a program")
        one.set_defaults(action=action)
        return one

    return add


def _add_topics(add: Add) -> None:
    one = add("add", add_topic, "make a topic", "weather --send @stations,ann", RIGHTS_EXPLAINED)
    one.add_argument("name", metavar="TOPIC", help="letters, digits, '.', '_', '-'; at most 64")
    for right in RIGHTS:
        one.add_argument(
            f"--{right}", metavar="LIST", help="names with commas between them; '': nobody; not given: '*'"
        )
    add("list", list_topics, "all topics, who may, and what the station knows of them if it runs", "--json")
    for name, action, about, more in (
        ("grant", grant, "give a right on a topic", GRANT),
        ("revoke", revoke, "take a right on a topic back", REVOKE),
    ):
        one = add(name, action, about, f"weather {RECEIVE} ann @crew", f"{more} {RIGHTS_EXPLAINED}")
        one.add_argument("name", metavar="TOPIC")
        one.add_argument("right", choices=RIGHTS)
        one.add_argument("who", metavar="WHO", nargs="+", help="a host, '@' and a group, or '*'")
        if action is grant:
            one.add_argument("--only", action="store_true", help="these and nobody else")
    more = "A topic of that name that is added later is another one: nobody is subscribed to it, it has no last value."
    one = add("remove", remove, "delete a topic, its rights and its last value", "weather", more)
    one.add_argument("name", metavar="TOPIC")


def _add_groups(add: Add) -> None:
    for name, about, example, more in (
        ("set", "a group has these hosts, and no others", "crew ann bob", "Without a host it has none."),
        ("add", "a group has these hosts, too", "crew ann", "It is made if there is none of that name."),
        ("drop", "a group has these hosts no more", "crew ann", "They lose at once what they may only as its hosts."),
    ):
        one = add(name, _group_action(f"groups {name}"), about, example, more)
        one.add_argument("name", metavar="GROUP")
        one.add_argument("hosts", metavar="HOST", nargs="*" if name == "set" else "+")
    more = "Where a list names it, it stands for nobody."
    add("delete", _group_action("groups delete"), "delete a group", "crew", more).add_argument("name", metavar="GROUP")
    add("list", list_groups, "all groups with their hosts", "--json")


# ---- reading ----


def list_topics(options: argparse.Namespace) -> str:
    """All topics."""
    _, _, directory = look(options.dir)
    book, live = directory.book, _live(options.dir)
    topics = []
    for name in book.names():
        who = {right: book.who(name, right) for right in RIGHTS}
        lists = {right: None if names is None else list(names) for right, names in who.items()}
        topics.append({"name": name, **lists, **(live or {}).get(name, {})})
    if options.json:
        return json.dumps(topics, indent=1)
    head = ["topic", "may send", "may receive"]
    rows = [[topic["name"], shown_who(topic[SEND]), shown_who(topic[RECEIVE])] for topic in topics]
    if live is not None:
        head += ["last value of (UTC)", "subscribed here"]
        for topic, row in zip(topics, rows, strict=True):
            row += [topic.get("last_value") or "", topic.get("subscribers", "")]
    presence = "on: topics $presence/<host>" if directory.topics().presence else "off (settings/presence)"
    stopped = [] if live is not None else ["the station does not run: last values and subscriptions are not shown"]
    return "\n".join([*(columns(head, rows) or ["no topics", ""]), f"presence is {presence}", *stopped])


def _live(path: Path) -> Json | None:
    """What the running station says of its topics; None: it does not run."""
    try:
        answer = ask(path, {"command": "topics"})
    except NotRunning:
        return None
    if not answer["ok"]:
        raise ControlError(answer["error"])
    found: Json = answer["topics"]
    return found


def list_groups(options: argparse.Namespace) -> str:
    """All groups."""
    groups = look(options.dir)[2].book.groups()
    if options.json:
        return json.dumps({name: list(hosts) for name, hosts in groups.items()}, indent=1)
    rows = [[name, shown_who(hosts)] for name, hosts in groups.items()]
    return "\n".join(columns(["group", "hosts"], rows)).rstrip() or "no groups"


# ---- writing ----


def add_topic(options: argparse.Namespace) -> str:
    """Make a topic."""
    given = {right: getattr(options, right) for right in RIGHTS}
    lists = {right: None if text is None else names_in(text) for right, text in given.items()}
    return _change(options, {"command": "topics add", "name": options.name, **lists}, f"topic {options.name} is made")


def grant(options: argparse.Namespace) -> str:
    """Give a right."""
    asked = {"right": options.right, "who": _names(options.who), "only": options.only}
    return _change(options, {"command": "topics grant", "name": options.name, **asked}, "")


def revoke(options: argparse.Namespace) -> str:
    """Take a right back."""
    asked = {"right": options.right, "who": _names(options.who)}
    return _change(options, {"command": "topics revoke", "name": options.name, **asked}, "")


def remove(options: argparse.Namespace) -> str:
    """Delete a topic."""
    asked = {"command": "topics remove", "name": options.name}
    return _change(options, asked, f"topic {options.name} is deleted: every subscription to it ends")


def _group_action(command: str) -> Callable[[argparse.Namespace], str]:
    def act(options: argparse.Namespace) -> str:
        name = options.name.removeprefix(topic_schema.GROUP_SIGN)
        hosts = {"hosts": _names(options.hosts)} if "hosts" in options else {}
        done = "" if hosts else f"group {name} is deleted: where a list names it, it stands for nobody"
        return _change(options, {"command": command, "name": name, **hosts}, done)

    return act


def _names(words: Iterable[str]) -> list[str]:
    return [name for word in words for name in names_in(word)]


def _change(options: argparse.Namespace, request: Json, done: str) -> str:
    """Have it done, and tell what that has made, replaced and overruled."""
    group = request["command"].split()[0]
    unknown = f"it is not known whether it was taken; look with mss-station {group} list {options.dir}"
    answer = change(options.dir, request, lambda station: station.updates.topics.perform(request), unknown)
    written = {key: look_up(options.dir, key, Version(*version)) for key, version in answer["versions"].items()}
    book = look(options.dir)[2].book
    if options.json:
        return json.dumps(_described(request["name"], book, written), indent=1)
    if not written:
        return "nothing has changed: it was so before"
    lines = [done] if done else []
    if request["command"] == "topics add":
        lines += [f"{_sentence(key)}: {shown_who(who)}" for key, who in _rights(book, request["name"])]
    for key, one in written.items():
        is_list = group == "groups" or key.count("/") > 1
        if is_list and not done:
            lines += [f"{_sentence(key)}: {shown(one.entry)}", *one.remarks()]
        else:
            lines += map(remark_unseen, one.unseen)
    return "\n".join([*lines, *_lacking(book, written), ARRIVES])


def _rights(book: TopicBook, name: str) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    for right in RIGHTS:
        yield topic_schema.right_key(name, right), book.who(name, right)


def _sentence(key: str) -> str:
    if key.startswith(topic_schema.GROUPS):
        return f"hosts of group {key.removeprefix(topic_schema.GROUPS)}"
    name, right = topic_schema.split_topic(key)
    return f"who may {right} on {name}"


def _lacking(book: TopicBook, written: Iterable[str]) -> list[str]:
    """Lines on names in the lists just written for which there is nobody; a typing error looks like that."""
    lacking = book.lacking()
    return [f"nobody has that name yet: {', '.join(lacking[key])}" for key in written if key in lacking]


def _described(name: str, book: TopicBook, written: dict[str, Written]) -> Json:
    return {
        "name": name,
        "written": sorted(written),
        "unseen": {key: [shown(entry) for entry in one.unseen] for key, one in written.items() if one.unseen},
        "lacking": {key: list(names) for key, names in book.lacking().items() if key in written},
    }
