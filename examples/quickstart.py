"""Two hosts at two stations, all on this machine: ``python examples/quickstart.py``.

The stations are made by the same commands that an operator types (see demo/cluster.py). Alice tells everybody something
and then writes to Bob alone; Bob is given both in that order, from another station, and answers.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from demo.cluster import Cluster

from roamcast.mh_agent import Agent, Message

PATIENCE_S = 20.0


def next_message(agent: Agent) -> Message:
    """The next message that `agent` is given; asking for it acknowledges the one before."""
    event = agent.receive(timeout=PATIENCE_S)
    if not isinstance(event, Message):
        raise SystemExit(f"{agent.name} was given {event} where a message was due")
    print(f"{agent.name} was given -> {event.sender}: {event.body.decode()}")
    return event


def main() -> None:
    """Set up, talk, take down."""
    with tempfile.TemporaryDirectory(prefix="roamcast-quickstart-") as home:
        cluster = Cluster(Path(home), count=2)
        try:
            cluster.enrol(["alice", "bob"])
            cluster.start()
            with Agent(cluster.credentials["alice"]) as alice, Agent(cluster.credentials["bob"]) as bob:
                alice.broadcast(b"hello, everybody")
                alice.send("bob", b"only for you")
                next_message(bob)
                next_message(bob)
                bob.move("s1")  # his messages follow him, each once and in order
                bob.broadcast(b"hello, alice")
                while next_message(alice).sender != "bob":
                    pass
        finally:
            cluster.close()


if __name__ == "__main__":
    main()
