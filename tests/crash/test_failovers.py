"""A real group loses its master, one way after the other: nothing acknowledged is lost, sends go on soon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.failovers import FAULTS, play


@pytest.mark.crash
@pytest.mark.timeout(180)
async def test_no_acknowledged_message_is_lost_when_the_master_changes(tmp_path: Path) -> None:
    gaps, acknowledged, lost = await play(tmp_path, len(FAULTS))
    assert lost == []
    assert acknowledged > 200 * len(FAULTS)
    assert max(max(found) for found in gaps.values()) < 10, "a machine with other work takes longer than the aim"
