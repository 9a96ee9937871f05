"""What each kind of finding means, in a line, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

HOST, SENT, SESSION, ORDER, MAIL, LIVE, NOWHERE = "host", "sent", "session", "order", "mail", "live", ""
"""What `place` of a finding is: where its host was given something; where it sent; the number of a session; a position
in the order of `station`; one in its inbox of station mail; of what is live: as HOST or ORDER; none of these."""

_LOST = "Keep the logs of these stations; look at what the host's stations logged when it moved, and report it."
_ORDER = "Keep the logs of these stations and report it: the two messages and the rows below are the proof."
_MAIL = "Keep the logs of these stations and report it: the rows below are the proof."
_LIVE = (
    "Keep the logs of these stations and report it: the rows below are the proof. Look at the stations' clocks, too."
)
_HOST = "Look at that host: two devices with one identity, or a restored copy of its state, look like this."
_LOGS = "Two logs cannot both be right: find out whether one was changed, and verify both with mss-station logs verify."
_FETCH = "Upload what is missing (mss-station logs upload DIR DEST) and audit the day again."
_FILE = "Fetch the file again from its station; if it stays so, find out who has changed it."
_KEYS = "Upload the station's keys.json again, or give the audit a pinned file made by mss-station logs keys."
_NOTE = "Nothing to do."


@dataclass(frozen=True)
class Kind:
    """Texts for people."""

    title: str
    means: str
    do: str
    place: str = NOWHERE


KINDS: dict[str, Kind] = {
    "missing": Kind("Lost", "A message that the host is owed was skipped: the host is past it and never had it.",
                    _LOST, SESSION),
    "duplicate": Kind("Doubled", "The host was given the same message more than once.", _LOST, HOST),
    "causal": Kind("Out of causal order", "A message was given before another one that its sender had known when it "
                   "sent.", _ORDER, HOST),
    "fifo_sender": Kind("Out of the sender's order", "Two messages of one sender came the wrong way round.", _ORDER,
                        HOST),
    "fifo_origin": Kind("Out of the station's order", "Two messages of one station came the wrong way round.", _ORDER,
                        HOST),
    "invented": Kind("Invented", "A message was given or ordered that its own station does not tell of.", _ORDER,
                     HOST),
    "not_meant": Kind("Given to the wrong host", "Mail, or another host's subscription, was given "
                      "to a host that it is not for.", _LOST,
                      HOST),
    "not_subscribed": Kind("Given without a subscription", "A host was given what was sent on a topic to which it was "
                           "not subscribed there.", _LOST, HOST),
    "subscription_unknown": Kind("Subscriptions not known", "A host was given what was sent on a topic, and it is not "
                                 "known what it was subscribed to before these logs begin.", _NOTE, HOST),
    "not_owed": Kind("From before it joined", "A host was given broadcasts from before it was enrolled.", _LOST, HOST),
    "base_unearned": Kind("Counted too early", "A session counts a message as had which the host was only given later.",
                          _LOST, HOST),
    "gap_unexplained": Kind("Unexplained gap", "A host was told that messages were given up, and nothing allowed that.",
                            _LOST, SESSION),
    "sent_twice": Kind("One number, two messages", "A host's own number stands for two messages.", _HOST),
    "send_lost": Kind("A send is in no log", "A host's own numbers have a hole: a message that it sent is nowhere.",
                      _LOST),
    "facts_differ": Kind("Stations disagree", "Two stations tell different facts of one message.", _LOGS),
    "order_conflict": Kind("Two messages at one position", "A station's log has two messages at one position.", _LOGS,
                           ORDER),
    "order_hole": Kind("Skipped by a station", "A station went past messages of another one.", _ORDER, ORDER),
    "ordered_twice": Kind("Ordered twice", "A station has one message at two positions of its order.", _ORDER, ORDER),
    "beyond_cut": Kind("Beyond the end of a station", "A message of an ended station was used though its stream was "
                       "cut before it.", _ORDER),
    "history_cycle": Kind("Logs contradict each other", "Each of some messages came before the next, in a circle.",
                          _LOGS),
    "clock_not_extension": Kind("Wrong clock", "A message's clock does not exceed what its sender had been given. "
                                "Order is judged by a repaired clock.", _LOGS, SENT),
    "stamp_understated": Kind("Stamp says too little", "A message's stamp leaves out what its sender had been given: "
                              "others may be given it too early.", _ORDER, SENT),
    "mail_lost": Kind("Station mail lost", "A station was delivered mail that has another one to it in its past, and "
                      "never had that one.", _MAIL, MAIL),
    "mail_twice": Kind("Station mail doubled", "Mail of a station was delivered more than once.", _MAIL, MAIL),
    "mail_causal": Kind("Station mail out of causal order", "Mail was delivered behind other mail that has it in its "
                        "past.", _MAIL, MAIL),
    "mail_invented": Kind("Station mail that nobody posted", "Mail was delivered that its sender's log does not have, "
                          "or has for another station.", _LOGS, MAIL),
    "mail_numbers": Kind("Station mail is numbered wrongly", "Numbers or inbox positions of station mail have a hole, "
                         "a double, or go back.", _LOGS, MAIL),
    "mail_header": Kind("Wrong header of station mail", "A header counts other mail than its sender had been "
                        "delivered: others may be delivered it too early.", _MAIL, MAIL),
    "mail_waiting": Kind("Station mail under way", "Mail was posted and has not arrived, or not by the end of these "
                         "logs.", "If it is undecided, it waits for a day: look at its addressee's inbox and the link.",
                         MAIL),
    "live_causal": Kind("Live messages out of causal order", "A live message was given after another one that comes "
                        "after it.", _LIVE, LIVE),
    "live_twice": Kind("Live message doubled", "A live message was handed down twice, or given to a host twice.", _LIVE,
                       LIVE),
    "live_late": Kind("Live message after its deadline", "A live message was handed down, or given, after its "
                      "deadline.", _LIVE, LIVE),
    "live_early": Kind("Live message too early", "A live message was given before a stored one that comes before it.",
                       _LIVE, LIVE),
    "live_overtaken": Kind("Live message too late in the order", "A live message was given after a stored one that "
                           "comes after it.", _LIVE, LIVE),
    "live_not_meant": Kind("Live message to the wrong host", "A live message was given to its own sender, or to a host "
                           "that it was not for.", _LIVE, LIVE),
    "live_untold": Kind("Not every live message is in the log", "There were more live messages than a station tells of "
                        "one by one: these were not judged.", _NOTE),
    "claim_not_given": Kind("Claimed, not given", "A station counts a message as given that the host's own journal "
                            "does not have.", _LOST, HOST),
    "claim_order_differs": Kind("Journal and station differ in order", "The host's journal has another order than its "
                                "stations.", _LOGS, HOST),
    "journal_facts_differ": Kind("Journal and stations disagree", "The host's journal names another number for a "
                                 "message than the stations.", _LOGS),
    "taken_differs": Kind("Had more than its station says", "A host had been given more when it sent than its station "
                          "has noted.", _LOGS, SENT),
    "unverified": Kind("Cannot be verified", "A session counts messages as had, and the session before is in no log.",
                       _FETCH, SESSION),
    "below_window": Kind("Too old to judge", "A host was given what earlier nights have settled without it: its order "
                         "is not known any more.", "Nothing to do, if the host was away for long.", HOST),
    "evidence": Kind("Hosts that cannot be judged", "The log of a station that may know more of the host is not whole.",
                     _FETCH),
    "no_logs": Kind("No logs", "There is no log of any station.", "Check the path of the logs and the upload."),
    "station_log_missing": Kind("No log of a station", "A station that others tell of has no log here.", _FETCH),
    "segment_missing": Kind("Segments are missing", "A log has a hole in its numbers.", _FETCH),
    "head_missing": Kind("Newest segments are missing", "Other stations have seen a segment closed that is not here.",
                         _FETCH),
    "log_ends_early": Kind("A log ends early", "A log does not reach the end of the day.", _FETCH),
    "positions_missing": Kind("Rows are missing", "A station's order has positions that are not in its log.", _FETCH,
                              ORDER),
    "messages_unknown": Kind("Messages in no log", "Hosts or stations count messages of which no log tells.", _FETCH),
    "origin_log_missing": Kind("Not in the log of its station", "A message is told by others, not by its own station.",
                               _FETCH),
    "segment_open": Kind("A segment has no end", "A file was copied while it was written, or was cut off.", _FILE),
    "segment_torn": Kind("A segment is torn", "A file ends in the middle of a block.", _FILE),
    "segment_damaged": Kind("A file is damaged", "A file was changed, or is no segment at all.", _FILE),
    "segment_forged": Kind("A signature is wrong", "A segment is not signed by the station that it names. It was not "
                           "used.", _FILE),
    "segment_fork": Kind("Two versions of a segment", "There are two different segments with one number.", _FILE),
    "chain_broken": Kind("A chain is broken", "A segment does not continue the one before it.", _FILE),
    "head_differs": Kind("Not the segment that others saw", "Other stations have seen this segment with another end.",
                         _FILE),
    "keys_missing": Kind("No public keys", "Signatures of a station could not be checked.", _KEYS),
    "key_unvouched": Kind("A key nobody vouches for", "A station signs with a key that no other station lists.", _KEYS),
    "keys_differ": Kind("Stations disagree on keys", "A station does not list a key that another one lists for it.",
                        _KEYS),
    "keys_damaged": Kind("A list of keys is damaged", "A keys.json cannot be used.", _KEYS),
    "logs_given_up": Kind("Not waited for any longer", "Logs have been missing for a week: the nights go on without "
                          "them.", "If they come after all, keep them: these days stay undecided."),
    "discontinuity": Kind("Told of a gap", "A host was told that messages were given up, and there was a reason.",
                          _NOTE, SESSION),
    "causal_stamp": Kind("Ordered by stamps only", "Only stations, no host, had one message before the other: no "
                         "promise was broken.", _NOTE, HOST),
    "given_not_claimed": Kind("Not acknowledged yet", "A journal has messages that no station counts as acknowledged.",
                              _NOTE),
    "given_unclaimed": Kind("Only in a journal", "Stations skipped a message, and only the host's journal has it. "
                            "Nobody has signed a journal.", _LOGS, SESSION),
    "segment_of_other_group": Kind("Of another group", "A file names another group, and no station of that has signed "
                                   "it.", _FILE),
    "order_short": Kind("An order that ends too early", "Hosts have acknowledged more than their station's log "
                        "tells of.", _LOGS, ORDER),
    "journal_broken": Kind("Journal not used", "A host's journal is not whole: its stations' word counts instead.",
                           _LOGS),
    "journal_damaged": Kind("Damaged journal", "A file of a journal was changed or damaged.", _LOGS),
    "journal_hole": Kind("Hole in a journal", "An agent was killed before it had written all: its stations' word "
                         "counts there.", _NOTE),
}  # fmt: skip

EVIDENCE = frozenset({
    "journal_broken", "journal_damaged", "segment_of_other_group", "order_short",
    "no_logs", "station_log_missing", "segment_missing", "head_missing", "log_ends_early", "positions_missing",
    "messages_unknown", "origin_log_missing", "segment_open", "segment_torn", "segment_damaged", "segment_forged",
    "segment_fork", "chain_broken", "head_differs", "keys_missing", "key_unvouched", "keys_differ", "keys_damaged",
    "logs_given_up",
})  # fmt: skip
"""Kinds that say of stations and files what is missing or cannot be trusted."""


def kind_of(name: str) -> Kind:
    """The texts of a kind; of one that is not known here, its name."""
    return KINDS.get(name) or Kind(name.replace("_", " ").capitalize(), "", "")
