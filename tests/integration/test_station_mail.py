"""Station mail between real processes that are killed: once and in causal order, judged by the delivery logs alone."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

from demo.cluster import Cluster, program, run_command
from harness import until

from roamcast.middleware.delivery_log import ARRIVED, POSTED
from roamcast.mss_station.control import ControlError, ask
from roamcast.transport.segment import read_segment

Name = tuple[int, int]
"""Of a mail: (slot of its sender, number)."""


class Logs:
    """What the stations' delivery logs tell of station mail."""

    def __init__(self, cluster: Cluster) -> None:
        self.to: dict[Name, int] = {}
        self.behind: dict[Name, int] = {}
        """Position up to which its sender had been delivered mail."""
        self.told: dict[Name, dict[int, int]] = {}
        """V in the header, as the log tells it."""
        self.arrived: dict[int, list[Name]] = {}
        for station in cluster.stations:
            self.arrived[station.slot] = []
            vector: dict[int, int] = {}
            for file in sorted((station.directory / "logs").glob("*.rclog")):
                segment = read_segment(file.read_bytes())
                assert segment.status in ("closed", "open"), (file, segment.reason)
                self._posted(station.slot, segment.columns(POSTED), vector)
                columns = segment.columns(ARRIVED)
                if columns:
                    at = self.arrived[station.slot]
                    assert list(columns["position"]) == list(range(len(at) + 1, len(at) + 1 + len(columns["seq"])))
                    at += zip(columns["slot"], columns["number"], strict=True)

    def _posted(self, slot: int, columns: Any, vector: dict[int, int]) -> None:
        changes = iter(columns["vector"] if columns else ())
        for i in range(len(columns["seq"]) if columns else 0):
            name = (slot, columns["number"][i])
            assert name not in self.to, "a number is given once"
            self.to[name], self.behind[name] = columns["addressee"][i], columns["after"][i]
            pairs = [next(changes) for _ in range(columns["vector_len"][i])]
            vector |= dict(zip(pairs[::2], pairs[1::2], strict=True))
            if self.to[name] != slot:
                self.told[name] = dict(vector)

    def judge(self) -> None:
        """Exactly once, nothing lost, and nothing before what it may follow. No stamp is trusted for that."""
        taken = [name for names in self.arrived.values() for name in names]
        assert len(taken) == len(set(taken)), "delivered twice"
        assert set(taken) == set(self.to), f"lost: {sorted(set(self.to) - set(taken))[:5]}"
        assert all(self.to[name] == slot for slot, names in self.arrived.items() for name in names)
        past: dict[Name, dict[int, int]] = {}
        for name in sorted(self.to):
            self._past(name, past)
        for slot, names in self.arrived.items():
            missing = {sender: sorted(n for k, n in names if k == sender) for sender in self.arrived}
            for name in names:
                late = [(k, n) for k, n in past[name].items() if missing[k] and missing[k][0] <= n]
                assert not late, f"{name} was delivered at {slot} before mail of {late}"
                missing[name[0]].remove(name[1])
        for name, vector in self.told.items():
            known = {slot: count for slot, count in past[name].items() if slot != name[0]}
            assert vector == known, f"the header of {name} counts {vector}, its sender had {known}"

    def _past(self, name: Name, past: dict[Name, dict[int, int]]) -> dict[int, int]:
        """For each sender, the highest number that happened before this mail; by what its sender had been given."""
        todo = [name]
        while todo:
            slot, number = todo[-1]
            needs = [(slot, number - 1)] if number > 1 else []
            known = self.behind[slot, number - 1] if number > 1 else 0
            needs += self.arrived[slot][known : self.behind[slot, number]]
            if missing := [each for each in needs if each not in past]:
                todo += missing
                continue
            merged: dict[int, int] = {}
            for each in needs:
                for other, count in {**past[each], each[0]: each[1]}.items():
                    merged[other] = max(count, merged.get(other, 0))
            past[todo.pop()] = merged
        return past[name]


class Traffic:
    """Programs at all stations that send to stations at random, whether these run or not."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self.accepted: set[Name] = set()
        self._threads = [
            threading.Thread(target=self._send, args=(station, Random(f"{seed} {station.id}")))
            for station in cluster.stations
            for _ in range(2)
        ]
        for thread in self._threads:
            thread.start()

    def _send(self, station: Any, rng: Random) -> None:
        while not self._stop.wait(0.03):
            to, body = rng.choice(self._cluster.stations).id, base64.b64encode(rng.randbytes(40)).decode()
            try:
                answer = ask(station.directory, {"command": "message", "to": to, "body": body, "wait": 5})
            except (ControlError, ValueError):  # it was killed, and may have taken it
                continue
            if answer["ok"]:
                self.accepted.add((station.slot, answer["number"]))

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def settled(cluster: Cluster) -> bool:
    """Whether all mail is where it is to go."""
    told = [(station.status() or {}).get("mail") for station in cluster.stations]
    return all(mail is not None and not mail["waiting"] and not mail["held"]["mails"] for mail in told)


def test_stations_that_are_killed_lose_double_and_reorder_nothing(tmp_path: Path, seed: int) -> None:
    cluster, rng = Cluster(tmp_path, 3), Random(seed)
    try:
        cluster.start()
        traffic = Traffic(cluster, seed)
        for round in range(5):
            time.sleep(rng.uniform(0.2, 0.5))
            victim = rng.choice(cluster.stations)
            if round % 2:
                victim.kill()
            else:
                victim.stop()
                victim.start(kill_point=f"{rng.choice(('before-commit', 'after-commit'))}:{rng.randint(3, 40)}")
                assert victim.wait_end() == -9, victim.text()[-2_000:]
            time.sleep(rng.uniform(0.0, 0.4))
            victim.start()
            victim.wait_ready()
        time.sleep(0.5)
        traffic.stop()
        until(lambda: settled(cluster), "all mail is delivered")
        told = {station.slot: printed(station.directory) for station in cluster.stations}
        for station in cluster.stations:
            assert station.stop() == 0
    finally:
        cluster.close()
    logs = Logs(cluster)
    logs.judge()
    assert told == logs.arrived, "the command prints what was delivered, in that order"
    assert traffic.accepted <= set(logs.to) and len(traffic.accepted) > 100
    print(f"seed {seed}: {len(logs.to)} mails, {len(traffic.accepted)} accepted")


def printed(directory: Path) -> list[Name]:
    """What `mss-station messages` prints of all that waits: half of it by a process that is told to end meanwhile."""
    lines: list[str] = []
    with subprocess.Popen(
        [program("mss-station"), "messages", str(directory), "--follow", "--json"], stdout=subprocess.PIPE, text=True
    ) as reading:
        assert reading.stdout is not None
        lines.append(reading.stdout.readline())
        reading.send_signal(signal.SIGTERM)
        lines += reading.stdout.readlines()
        assert reading.wait(20) == 0
    done = run_command("mss-station", "messages", directory, "--json")
    assert done.returncode == 0, done.stderr
    mails = [json.loads(line) for line in [*lines, *done.stdout.splitlines()]]
    assert [mail["position"] for mail in mails] == list(range(1, len(mails) + 1))
    return [(int(mail["sender"][1:]), mail["number"]) for mail in mails]
