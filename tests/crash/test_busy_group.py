"""A group changes its master while ordered and other consumers, transactions, delays and a sink are at work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.busy_failovers import play


@pytest.mark.crash
async def test_clients_of_all_kinds_get_over_a_kill_and_a_hand_over(tmp_path: Path) -> None:
    clients, problems = await play(tmp_path, ("kill", "hand over"))
    print(clients.report())
    assert problems == []
