"""End-to-end sealing: the stations carry what they cannot read. ``python examples/sealed_chat.py``

The bodies are the application's own bytes, so sealing is two calls around the agent: `seal` before a message is sent
and `unseal` when it is given. Here all hosts share one group key (ChaCha20-Poly1305); the sender's name is bound to the
body, so that no station can pass one host's words off as another's. Who talks to whom, and when, stays visible.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from demo.cluster import Cluster

from roamcast.mh_agent import Agent, Message

NONCE_BYTES = 12
PATIENCE_S = 20.0
SECRET_WORDS = b"the meeting is at nine, behind the old mill"


class Seal:
    """The hook: bytes to bytes, with a key that the group has agreed on elsewhere."""

    def __init__(self, group_key: bytes) -> None:
        self._cipher = ChaCha20Poly1305(group_key)

    def seal(self, sender: str, body: bytes) -> bytes:
        """Close `body` so that only the group can read it, and only as a word of `sender`."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, body, sender.encode())

    def unseal(self, sender: str, body: bytes) -> bytes:
        """Open it. Raises InvalidTag if it was altered, or is not of `sender`."""
        return self._cipher.decrypt(body[:NONCE_BYTES], body[NONCE_BYTES:], sender.encode())


def take(agent: Agent, seal: Seal) -> bytes:
    """The next message that `agent` is given, opened."""
    event = agent.receive(timeout=PATIENCE_S)
    if not isinstance(event, Message):
        raise SystemExit(f"{agent.name} was given {event} where a message was due")
    words = seal.unseal(event.sender, event.body)
    print(f"{agent.name} was given -> {event.sender}: {words.decode()}")
    return words


def occurrences(home: Path, words: bytes) -> int:
    """In how many files below `home` the words stand."""
    return sum(words in file.read_bytes() for file in home.rglob("*") if file.is_file())


def main() -> None:
    """Talk, then look for the words in everything that was written."""
    seal = Seal(ChaCha20Poly1305.generate_key())
    with tempfile.TemporaryDirectory(prefix="roamcast-sealed-") as home:
        cluster = Cluster(Path(home), count=2)
        try:
            cluster.enrol(["alice", "bob"])
            cluster.start()
            with Agent(cluster.credentials["alice"]) as alice, Agent(cluster.credentials["bob"]) as bob:
                alice.broadcast(seal.seal("alice", SECRET_WORDS))
                take(bob, seal)
                bob.send("alice", seal.seal("bob", b"I will be there"))
                while take(alice, seal) != b"I will be there":
                    pass
        finally:
            cluster.close()
        if occurrences(Path(home), SECRET_WORDS):
            raise SystemExit("the words stand in a file")
        print("the stations saw no word of it")
    try:
        seal.unseal("mallory", seal.seal("alice", b"words"))
    except InvalidTag:
        print("and nobody can pass alice's words off as his own")


if __name__ == "__main__":
    main()
