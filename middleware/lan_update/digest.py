"""What a node holds, in BUCKETS sums: two nodes with equal sums hold the same (lan-update.md C.b).

A key lies in the bucket that the first byte of its own hash names. The sum of a bucket is that of the hashes of all
(key, version, holders) in it, mod 2^64; the hash is BLAKE2b of 64 bits. Each change costs one hash, however many keys
there are.
"""

from __future__ import annotations

import hashlib

from roamcast.middleware.lan_update.records import BUCKETS, Entry

MODULUS = 1 << 64


def bucket_of(key: str) -> int:
    """The bucket of a key; the same at every node."""
    return hashlib.blake2b(key.encode(), digest_size=8).digest()[0]


def entry_hash(entry: Entry) -> int:
    """64 bits that name (key, version, holders). The value needs no hash: one version has one value."""
    version = entry.version
    parts = (entry.key, str(version.time), str(version.count), version.node, str(version.boot), *sorted(entry.holders))
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class Digest:
    """The sums of all entries of one node, and which keys they are made of."""

    def __init__(self) -> None:
        self.sums = [0] * BUCKETS
        self.keys: list[dict[str, int]] = [{} for _ in range(BUCKETS)]
        """Per bucket: key -> hash of what is held of it. In order of their coming."""

    def put(self, entry: Entry) -> None:
        """The entry of its key is now this one."""
        bucket, new = bucket_of(entry.key), entry_hash(entry)
        self._add(bucket, new - self.keys[bucket].get(entry.key, 0))
        self.keys[bucket][entry.key] = new

    def drop(self, key: str) -> None:
        """There is no entry of the key any more."""
        bucket = bucket_of(key)
        self._add(bucket, -self.keys[bucket].pop(key))

    def _add(self, bucket: int, difference: int) -> None:
        self.sums[bucket] = (self.sums[bucket] + difference) % MODULUS
