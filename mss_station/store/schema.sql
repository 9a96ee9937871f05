-- Store of a station: what `DurableState` of middleware/writes.py holds, and the tail of the delivery log. Format 4.
-- Times: UTC microseconds. Numbers of 64 random bits (incarnation, generation) lie here as signed integers of equal bits.
-- Vectors: 8 bytes a slot; stamps: 4 bytes slot and 8 bytes value an entry; little-endian.
-- Message keys: slot << 40 | n. Checksums: CRC-32 of the item, or of all the other columns as sums.py puts them, for
-- SQLite does not notice a bit that flips in a value.

CREATE TABLE self (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    station_id TEXT NOT NULL,
    slot INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    starts INTEGER NOT NULL,
    last_position INTEGER NOT NULL,
    hlc INTEGER NOT NULL,
    alive INTEGER NOT NULL              -- own clock when the configuration was last known to be fresh
);

-- Counters outlive the rows they speak of.
CREATE TABLE stream (
    slot INTEGER PRIMARY KEY,
    stored INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    floor INTEGER NOT NULL
);

CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    position INTEGER UNIQUE,            -- NULL: waits for its causal predecessors
    hlc INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    host INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    number INTEGER NOT NULL,
    taken_epoch INTEGER NOT NULL,
    taken_position INTEGER NOT NULL,
    addressee INTEGER NOT NULL,
    stamp BLOB NOT NULL,
    checksum INTEGER NOT NULL,          -- negative: the item is elsewhere, `item` is empty, and it has so many bytes
    item BLOB NOT NULL                  -- last: a reader of the other columns does not touch its pages
);

CREATE TABLE record (
    host INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    arr INTEGER NOT NULL,
    state TEXT NOT NULL,
    prev INTEGER,
    link INTEGER NOT NULL,
    t_vector BLOB NOT NULL,
    t_position INTEGER NOT NULL,
    ready INTEGER NOT NULL,
    le INTEGER NOT NULL,
    sess INTEGER NOT NULL,
    ep INTEGER NOT NULL,
    base BLOB NOT NULL,
    base_c INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    sdep BLOB NOT NULL,
    moved_slot INTEGER,
    moved_epoch INTEGER,
    succ_ok INTEGER NOT NULL,
    joining INTEGER NOT NULL,
    gap INTEGER NOT NULL,
    exp_acked INTEGER NOT NULL,
    ephemeral INTEGER NOT NULL,
    away_since INTEGER NOT NULL,
    ext TEXT NOT NULL,                  -- JSON: [[name, hexadecimal bytes], ...]
    shift INTEGER NOT NULL,
    PRIMARY KEY (host, incarnation, arr)
) WITHOUT ROWID;

-- The one part of a record that changes with every message of its host: narrow, so that a tick touches few pages.
CREATE TABLE record_lastseq (
    host INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    arr INTEGER NOT NULL,
    lastseq INTEGER NOT NULL,
    last_slot INTEGER NOT NULL,
    last_n INTEGER NOT NULL,
    PRIMARY KEY (host, incarnation, arr)
) WITHOUT ROWID;

-- Records that are held for a retiring station, whole. Their spools lie with the others.
CREATE TABLE held (
    origin INTEGER NOT NULL,            -- slot of that station
    host INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    arr INTEGER NOT NULL,
    state TEXT NOT NULL,
    prev INTEGER,
    link INTEGER NOT NULL,
    t_vector BLOB NOT NULL,
    t_position INTEGER NOT NULL,
    ready INTEGER NOT NULL,
    le INTEGER NOT NULL,
    sess INTEGER NOT NULL,
    ep INTEGER NOT NULL,
    base BLOB NOT NULL,
    base_c INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    sdep BLOB NOT NULL,
    moved_slot INTEGER,
    moved_epoch INTEGER,
    succ_ok INTEGER NOT NULL,
    joining INTEGER NOT NULL,
    gap INTEGER NOT NULL,
    exp_acked INTEGER NOT NULL,
    ephemeral INTEGER NOT NULL,
    away_since INTEGER NOT NULL,
    ext TEXT NOT NULL,
    shift INTEGER NOT NULL,
    lastseq INTEGER NOT NULL,
    last_slot INTEGER NOT NULL,
    last_n INTEGER NOT NULL,
    PRIMARY KEY (host, incarnation, arr)
) WITHOUT ROWID;

CREATE TABLE spool (
    host INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    arr INTEGER NOT NULL,
    pos INTEGER NOT NULL,
    message INTEGER NOT NULL,
    topic INTEGER NOT NULL DEFAULT 0,   -- it is owed for the sake of this one, under the subscription `sub`
    sub INTEGER NOT NULL DEFAULT 0,     -- key of a message
    PRIMARY KEY (host, incarnation, arr, pos)
) WITHOUT ROWID;

-- Of each topic its newest retained message; its item is in `message`, then in `spool_item`.
CREATE TABLE last_value (
    topic INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,             -- the order among the values of the topic
    second INTEGER NOT NULL,
    third INTEGER NOT NULL,
    message INTEGER NOT NULL,
    position INTEGER NOT NULL,
    cleared INTEGER NOT NULL,
    checksum INTEGER NOT NULL
);

CREATE TABLE spool_item (
    id INTEGER PRIMARY KEY,
    checksum INTEGER NOT NULL,
    item BLOB NOT NULL
);

CREATE TABLE host (
    number INTEGER PRIMARY KEY,
    incarnation INTEGER NOT NULL,
    stamp_order INTEGER NOT NULL,
    stamp_slot INTEGER NOT NULL,
    stamp_n INTEGER NOT NULL,
    gone INTEGER NOT NULL,
    replaced BLOB NOT NULL,             -- incarnations, 8 bytes each
    taken BLOB NOT NULL                 -- first and last of each range, 8 bytes each
);

-- The station's view of the group; without a line it is as founded.
CREATE TABLE group_view (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    content TEXT NOT NULL,              -- JSON, as group.py puts it
    checksum INTEGER NOT NULL
);

-- Slots that are meant for a newcomer, and for no other one ever.
CREATE TABLE reservation (
    slot INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL,
    checksum INTEGER NOT NULL
);

CREATE TABLE invitation (
    key TEXT PRIMARY KEY,               -- CURVE public key of the one-time pair
    slot INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    used_generation INTEGER,            -- NULL: it is not used
    used_key TEXT,
    checksum INTEGER NOT NULL
) WITHOUT ROWID;

-- The configuration of the LAN, as middleware/lan_update/records.py has it. Versions are (time, count, node, boot). No table
-- has an index of its own: a key lies in one place, so that a flipped bit cannot make two of it.
CREATE TABLE lan_entry (
    key TEXT PRIMARY KEY,
    time INTEGER NOT NULL,
    count INTEGER NOT NULL,
    node TEXT NOT NULL,
    boot INTEGER NOT NULL,
    value BLOB,                         -- NULL: deleted
    after_time INTEGER,                 -- NULL: the author had nothing
    after_count INTEGER,
    after_node TEXT,
    after_boot INTEGER,
    signature BLOB NOT NULL,
    holders TEXT NOT NULL,              -- JSON: ids, ascending
    checksum INTEGER NOT NULL
) WITHOUT ROWID;

-- lost+found, in the order in which it came.
CREATE TABLE lan_found (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    time INTEGER NOT NULL,
    count INTEGER NOT NULL,
    node TEXT NOT NULL,
    boot INTEGER NOT NULL,
    value BLOB,
    after_time INTEGER,
    after_count INTEGER,
    after_node TEXT,
    after_boot INTEGER,
    signature BLOB NOT NULL,
    holders TEXT NOT NULL,
    wall INTEGER NOT NULL,
    checksum INTEGER NOT NULL
);

CREATE TABLE lan_history (
    key TEXT NOT NULL,
    time INTEGER NOT NULL,
    count INTEGER NOT NULL,
    node TEXT NOT NULL,
    boot INTEGER NOT NULL,
    value BLOB,
    after_time INTEGER,
    after_count INTEGER,
    after_node TEXT,
    after_boot INTEGER,
    signature BLOB NOT NULL,
    holders TEXT NOT NULL,
    wall INTEGER NOT NULL,
    lost_time INTEGER,                  -- version of the entry it lost to; NULL: to none
    lost_count INTEGER,
    lost_node TEXT,
    lost_boot INTEGER,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (key, time, count, node, boot)
) WITHOUT ROWID;

-- Station mail, as MailImage of middleware/causal_unicast/records.py has it. A stamp is V and R, 8 bytes a number: how many
-- entries V has, their (slot, count), then (sender, receiver, number) of each s-record. The checksum of a mail is the CRC-32
-- of its keys (8 bytes each: sender, addressee, number; in the inbox position, sender, number), stamp and content.
CREATE TABLE mail_count (
    slot INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    checksum INTEGER NOT NULL
);

CREATE TABLE mail_record (
    sender INTEGER NOT NULL,
    receiver INTEGER NOT NULL,
    number INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (sender, receiver)
) WITHOUT ROWID;

CREATE TABLE mail_out (
    number INTEGER PRIMARY KEY,         -- counts all own mail
    addressee INTEGER NOT NULL,
    stamp BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    content BLOB NOT NULL
);

CREATE TABLE mail_held (
    sender INTEGER NOT NULL,
    number INTEGER NOT NULL,
    stamp BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (sender, number)
) WITHOUT ROWID;

CREATE TABLE mail_inbox (
    position INTEGER PRIMARY KEY,
    sender INTEGER NOT NULL,
    number INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    content BLOB NOT NULL
);

CREATE TABLE mail_ends (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL,              -- highest position of the inbox that was ever given
    taken INTEGER NOT NULL,
    checksum INTEGER NOT NULL
);

CREATE TABLE mail_acked (
    slot INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,            -- highest own number that this station has acknowledged
    checksum INTEGER NOT NULL
);

CREATE TABLE mail_retired (
    slot INTEGER PRIMARY KEY,
    checksum INTEGER NOT NULL
);

-- Own mail to stations that have ended, given up: until the station's program was told.
CREATE TABLE mail_lost (
    slot INTEGER PRIMARY KEY,
    numbers BLOB NOT NULL,              -- 8 bytes each
    checksum INTEGER NOT NULL
);

-- Events of the delivery log that no synced block of a segment may hold yet (new in format 2, packed in format 3).
CREATE TABLE log_tail (
    id INTEGER PRIMARY KEY,
    events BLOB NOT NULL                -- as transport/tail_codec.py packs them
);
