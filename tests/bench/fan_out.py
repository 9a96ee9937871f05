"""CPU of a station per delivery and its memory per host, beside a bare relay; and where the CPU goes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from bench.child import Child, Json, difference
from bench.group import RelayGroup, StationGroup, seats
from bench.plan import Plan

BODY_BYTES = 128
ON_THE_WAY = 320
"""Messages on their way in a saturated round: with what is not acknowledged yet less than a host's window of 512."""

PACED_RATE = 100
PACED_DELIVERIES = 20_000
"""At most so many messages, and deliveries, a second in a paced round: so few that each message has its own tick."""

ALONE = 1.2
"""Messages per tick up to which a paced round counts as one message per tick."""

SATURATED, PACED = "saturated", "paced"
FLOOR, FLOOR_PLAIN = "floor", "floor, no CURVE"
FLOOR_ON_THE_WAY = 2


class Side:
    """A station or a relay with its hosts attached."""

    def __init__(self, stack: ExitStack, group: StationGroup | RelayGroup) -> None:
        stack.callback(group.close)
        self.server: Child = group.stations[0]
        self.idle_kib = self.server.resident_kib()
        before = self.server.ask("usage")
        self.fleet = group.fleet()
        stack.callback(self.fleet.close)
        hosts = self.fleet.ask("attach")["hosts"]
        self.attach_cpu_us = 1e6 * difference(self.server.ask("usage"), before)["cpu_s"] / hosts
        self.attached_kib = self.server.resident_kib()

    def round(self, seconds: float, rate: float, on_the_way: float, body_bytes: int = BODY_BYTES) -> Json:
        """One round of load: what was delivered, and what the server used for it."""
        before = self.server.ask("usage")
        told = self.fleet.ask("round", seconds=seconds, body_bytes=body_bytes, rate=rate, on_the_way=on_the_way)
        used = difference(self.server.ask("usage"), before)
        del told["latencies_us"]
        ticks = used.get("counters", {}).get("commits", 0)
        return {
            **told,
            "used": used,
            "us_per_delivery": 1e6 * used["cpu_s"] / told["deliveries"],
            "messages_per_tick": told["messages"] / ticks if ticks else None,
            "deliveries_per_second": told["deliveries"] / told["seconds"],
        }


def measure(home: Path, hosts: int, plan: Plan) -> Json:
    """All rounds with `hosts` hosts: station and relay in turn; then the split, the floor, and memory."""
    with ExitStack() as stack:
        plan.say(f"{hosts} hosts: starting a station and two bare relays, attaching the hosts of each")
        ours = Side(stack, StationGroup(home / f"station-{hosts}", 1, seats(hosts, 1)))
        bare = Side(stack, RelayGroup(home / f"bare-{hosts}", 1, seats(hosts, 1)))
        plain = Side(stack, RelayGroup(home / f"plain-{hosts}", 1, seats(hosts, 1), plain=True))
        rate = min(PACED_RATE, PACED_DELIVERIES / hosts)
        rounds: dict[str, list[Json]] = {}
        for i in range(plan.repeats):
            plan.say(f"{hosts} hosts: saturated and paced rounds, {i + 1} of {plan.repeats}")
            for mode, pace in ((SATURATED, 0.0), (PACED, rate)):
                for name, side in (("station", ours), ("bare", bare)):
                    rounds.setdefault(f"{name} {mode}", []).append(side.round(plan.round_s, pace, ON_THE_WAY))
        memory = {name: _memory(side, hosts) for name, side in (("station", ours), ("bare", bare))}
        plan.say(f"{hosts} hosts: where the CPU goes")
        split = {mode: _split(ours, plan, pace) for mode, pace in ((SATURATED, 0.0), (PACED, rate))}
        best = {name: _best(told, PACED in name) for name, told in rounds.items()}
        frame = round(best[f"station {SATURATED}"]["bytes"] / best[f"station {SATURATED}"]["frames"])
        for name, side in ((FLOOR, bare), (FLOOR_PLAIN, plain)):
            told = [side.round(plan.round_s / 2, 0.0, FLOOR_ON_THE_WAY, frame) for _ in range(2)]
            best[name] = min(told, key=lambda one: one["us_per_delivery"])
            best[name]["frame_bytes"] = frame
        return {
            "hosts": hosts,
            "best": best,
            "all_us_per_delivery": {name: [one["us_per_delivery"] for one in told] for name, told in rounds.items()},
            "memory_kib_per_host": memory,
            "split": split,
            "messages": sum(one["messages"] for name, told in rounds.items() if "station" in name for one in told),
            "attach_cpu_us": {"station": ours.attach_cpu_us, "bare": bare.attach_cpu_us},
        }


def _best(rounds: list[Json], paced: bool) -> Json:
    """The cheapest round; of paced ones only those where messages did not share ticks, or shared them least."""
    shared = [one["messages_per_tick"] or 1.0 for one in rounds]
    bound = max(ALONE, min(shared)) if paced else max(shared)
    fair = [one for one, messages in zip(rounds, shared, strict=True) if messages <= bound]
    return min(fair, key=lambda one: one["us_per_delivery"])


def _memory(side: Side, hosts: int) -> Json:
    attached = (side.attached_kib - side.idle_kib) / hosts
    return {"attached": attached, "after_rounds": (side.server.resident_kib() - side.idle_kib) / hosts}


def _split(side: Side, plan: Plan, rate: float) -> Json:
    """A round with timers in the station's main thread; us per delivery of each part, and of the other threads."""
    side.server.ask("split", on=True)
    told = side.round(plan.round_s, rate, ON_THE_WAY)
    parts = side.server.ask("split", on=False)["parts"]
    used, per = told["used"], 1e6 / told["deliveries"]
    return {
        "us_per_delivery": told["us_per_delivery"],
        "messages": told["messages"],
        "ticks": used["counters"]["commits"],
        "acks": told["acks"],
        "main": {part: seconds * per for part, (seconds, _) in parts.items()},
        "other user": used["other_user_s"] * per,
        "other system": used["other_system_s"] * per,
    }
