"""Sizes and ranges of everything on the wire. `wire.cddl` states the same numbers; a test compares the two."""

from __future__ import annotations

from roamcast.middleware import rows

BODY_BYTES_MAX = 256 << 10
"""Body of one message; the setting `message_bytes_max` can only lower it."""

OVERHEAD_BYTES_MAX = 1 << 10
"""What any frame or item adds to one body: head, names, growth."""

ITEM_BYTES_MAX = BODY_BYTES_MAX + OVERHEAD_BYTES_MAX
UP_FRAME_BYTES_MAX = BODY_BYTES_MAX + OVERHEAD_BYTES_MAX
DOWN_FRAME_BYTES_MAX = ITEM_BYTES_MAX + OVERHEAD_BYTES_MAX
PEER_FRAME_BYTES_MAX = 4 << 20

CURVE_OVERHEAD_BYTES = 64
"""What CURVE adds to a frame before MAXMSGSIZE is compared (33 bytes in libzmq 4.3)."""

EXTRA_ELEMENTS_MAX = 8
"""Unknown elements at the end of a frame or an item, from a newer minor version."""

EXTRA_BYTES_MAX = 1 << 10
NESTING_MAX = 4
"""Arrays within arrays in an unknown element."""

SLOT_MAX = 1023
COUNTER_MAX = rows.COUNTER_MAX

INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1
UINT32_MAX = (1 << 32) - 1
UINT64_MAX = (1 << 64) - 1
VERSION_MAX = (1 << 16) - 1
PING_S_MAX = 86_400

NAME_BYTES_MAX = 64
"""Name of a host, id of a station, name of a group."""

TOPIC_BYTES_MAX = 96
"""Name of a topic; that of a host's presence is longer than the host's."""

ENDED_MAX = 1_000
"""Subscriptions of one host that have ended and were not told yet."""

VALUES_MAX = 4_096
"""Last values of one part of a snapshot."""

LIVE_ENTRIES_MAX = 64
"""Live messages that one, or a row, names as coming before it."""

CODE_BYTES_MAX = 64
TEXT_BYTES_MAX = 512
"""A sentence for a person; longer ones are cut by the sender."""

ENDPOINT_BYTES_MAX = 256
PORT_MAX = (1 << 16) - 1
KEY_BYTES = 40
"""A CURVE public key in Z85."""

MSG_ENTRIES_MAX = 8_192
STATIONS_MAX = SLOT_MAX + 1
ABSENT_MAX = 8_192
"""Own numbers told to be absent in one frame: above STORED_MAX and the messages of an outbox together."""

ROWS_MAX = 4_096
"""Rows of one DATA frame between stations; the sender cuts at `nack_rows_max` and `nack_bytes_max`."""

NUMBERS_MAX = 4_096
"""Rows whose bodies one frame asks for, tells of or names."""

SPOOL_ENTRIES_MAX = 131_072
"""Entries of one SPOOL_PART: above 1 MiB divided by the smallest item."""

SPOOL_PARTS_MAX = 65_536
EXT_ENTRIES_MAX = 16
EXT_KEY_BYTES_MAX = 32
EXT_VALUE_BYTES_MAX = 1 << 20

PLACE_MAX = (1 << 62) - 1
"""Positions, and what they are shifted by, where an heir takes one from the other: it still has 64 bits."""

REPLACED_MAX = 16
TAKEN_MAX = 16
SNAPSHOT_HOSTS_MAX = 4_096

MAILS_MAX = 1_024
"""Station mails of one frame; the sender stops at 1 MiB."""

MAIL_RECORDS_MAX = 65_536
"""s-records of one mail; with the largest body and vector it fits into a frame."""

MAIL_ACKS_MAX = 4_096

LAN_KEY_BYTES_MAX = 200
LAN_VALUE_BYTES_MAX = 16 << 10
LAN_ENTRIES_MAX = 1_000
LAN_KEYS_MAX = 65_536
"""Versions, and keys wanted, of one packet: what one bucket holds where a station has millions of keys."""

SIGNATURE_BYTES = 64
"""Ed25519."""
