"""A real group meets one fault after the other: nothing acknowledged is lost or doubled, sends go on.

All kinds, many times, with figures of how soon: `make failovers KILLS=200`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.crash.failovers import play

KINDS = (
    "kill",
    "stop",
    "hand over",
    "kill a slave",
    "cut off the master",
    "cut one way from the slaves",
    "cut one way to the controllers",
    "cut a controller from etcd, kill",
    "kill both controllers",
    "kill etcd's leader, kill",
    "kill etcd's majority",
    "fill a slave's disk",
    "stop in a hand-over",
)


@pytest.mark.crash
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(("kill", "stop", "hand over"), marks=pytest.mark.smoke, id="three kinds"),
        pytest.param(KINDS, id="all kinds"),
    ],
)
async def test_nothing_acknowledged_is_lost_or_doubled_whatever_fails(kinds: Sequence[str], tmp_path: Path) -> None:
    outcome = await play(tmp_path, kinds)
    assert outcome.lost == []
    assert outcome.wrong == []
    assert outcome.acknowledged > 200 * len(outcome.gaps)
    assert outcome.repeated > 0, "faults must really have hit batches"
