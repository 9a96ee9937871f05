"""`mss-station plan`: one cluster or several, what each station has to expect, and a setting that can be set."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from roamcast.middleware.fifo_broadcast.cluster_costs import gain
from roamcast.mss_station.cli import main
from roamcast.mss_station.cluster_text import read_clusters
from roamcast.mss_station.group_settings import setting


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["plan", *arguments]) == 0
    return capsys.readouterr().out


def plan(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(told(capsys, *arguments, "--json"))


@pytest.mark.parametrize(
    ("arguments", "recommended"),
    [
        (("--stations", "1"), "flat"),
        (("--stations", "20"), "flat"),
        (("--stations", "50"), "pairs"),
        (("--stations", "50", "--rate", "0.5"), "flat"),
        (("--stations", "100", "--rate", "0.5"), "pairs"),
        (("--stations", "100", "--rate", "0.5", "--fixed-cost", "500"), "flat"),
        (("--stations", "20", "--rate", "9.4", "--fixed-cost", "500"), "pairs"),
    ],
)
def test_the_rule_decides(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], recommended: str) -> None:
    found = plan(capsys, *arguments)
    assert found["recommended"] == recommended
    assert found["gain"] == pytest.approx(gain(found["stations"], found["rate"], found["fixed_cost"]), abs=0.001)
    assert (found["gain"] > 1) == (recommended == "pairs") == (found["pairs"] is not None) == bool(found["setting"])


def test_loads_and_latency_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(capsys, "--stations", "100", "--rate", "2.3", "--fixed-cost", "100")
    assert found["flat"]["station"] == {"pdus": 3.3, "cells": 660.0} and found["flat"]["hops"] == [1, 2, 3]
    split = found["pairs"]
    assert (split["clusters"], split["size"], split["gateways"], split["hops"]) == (10, 19.0, 45, [2, 4, 6])
    assert split["station"] == {"pdus": 1.437, "cells": 171.003}
    assert split["gateway"] == {"pdus": 2.874, "cells": 344.006}


@pytest.mark.parametrize("stations", ["25", "100", "1023"])
def test_the_setting_is_ready_to_use(capsys: pytest.CaptureFixture[str], stations: str) -> None:
    text = told(capsys, "--stations", stations, "--fixed-cost", "50")
    value = text.rstrip().splitlines()[-1].strip().strip("'")
    clusters = setting("clusters").read(value)
    assert clusters == plan(capsys, "--stations", stations, "--fixed-cost", "50")["setting"] == value
    assert len(read_clusters(value).ids()) == int(stations)


def test_a_person_reads_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "--stations", "100", "--rate", "2.3")
    assert text.startswith("100 stations: 10 clusters of about 19, any two with a gateway and a standby; ")
    assert re.search(r"^one flat cluster +every station +3\.30 +660 +1 / 2 / 3$", text, re.M)
    assert re.search(r"^10 clusters +a station +1\.44 +171 +2 / 4 / 6$", text, re.M)
    assert re.search(r"^ +a gateway, a standby +2\.87 +344$", text, re.M)
    flat = told(capsys, "--stations", "1")
    assert flat.startswith("1 station: one flat cluster, which is the default") and "config set" not in flat


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--stations", "0"), "--stations must be from 1 to 1023, not 0"),
        (("--stations", "1024"), "--stations must be from 1 to 1023, not 1024"),
        (("--stations", "9", "--rate", "-1"), "--rate must be a number from 0 to 1,000,000, not -1"),
        (("--stations", "9", "--fixed-cost", "inf"), "--fixed-cost must be a number from 0 to 1,000,000, not inf"),
        (("--stations", "100", "--rate", "1e308"), "--rate must be a number from 0 to 1,000,000, not 1e+308"),
        (("--stations", "9", "--rate", "nan"), "--rate must be a number from 0 to 1,000,000, not nan"),
    ],
)
def test_wrong_use_is_told(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str) -> None:
    assert main(["plan", *arguments]) == 2
    assert capsys.readouterr().err == f"mss-station: {said}\n"


def test_help_tells_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "(default 2.5)" in text and "(default 100)" in text
