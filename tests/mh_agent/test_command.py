"""`mh-agent send` where nothing can be sent: for good, or as far as anybody can tell."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from roamcast.mh_agent.cli import main
from roamcast.middleware.host_frames import Data, Refused, Replaced


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Replaced(0), "replaced: a newer incarnation of this host has joined"),
        (Refused("revoked", "this host was revoked"), "revoked: this host was revoked"),
    ],
)
def test_a_membership_that_has_ended_is_told_at_once(
    credential: Path, station: Any, capsys: pytest.CaptureFixture[str], answer: Any, why: str
) -> None:
    codes: list[int] = []
    command = ["send", str(credential), "hello", "--timeout", "60"]
    sender = threading.Thread(target=lambda: codes.append(main(command)))
    sender.start()
    station.welcome()
    station.expect(Data)
    station.say(answer)
    sender.join(20)
    assert codes == [3], "it waited for nothing"
    assert f"mh-agent: never to be sent: {why}" in capsys.readouterr().err
