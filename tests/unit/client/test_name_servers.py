"""Which name server is asked: each of them once, whatever other calls find out meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

CALLS = 4


@pytest.mark.parametrize("chosen", [0, 1])
async def test_calls_side_by_side_all_reach_the_name_server_that_is_there(peers: Any, chosen: int) -> None:
    names = peers.client("gone:9876;ns:9876").name_servers
    names.prefer(names.addresses[chosen])
    assert await asyncio.gather(*[names.route("T") for _ in range(CALLS)]) == [None] * CALLS
    assert len(peers.route_questions) == CALLS
