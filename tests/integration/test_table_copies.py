"""A slave finds its master and copies its tables."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.replica_pair import MASTER, ReplicaPair


@pytest.fixture
async def pair() -> AsyncIterator[ReplicaPair]:
    pair = ReplicaPair()
    await pair.start()
    yield pair
    await pair.stop()


async def test_a_slave_hears_of_its_master_when_it_registers(pair: ReplicaPair) -> None:
    known = pair.slave.cluster.master
    assert (known.address, known.ha_address) == (f"{MASTER}:10911", f"{MASTER}:10912")
    assert pair.master.cluster.master.address == ""
    await pair.slave.become_master()
    assert known.address == ""


async def test_a_slave_that_starts_before_its_master_asks_again_until_there_is_one() -> None:
    pair = ReplicaPair()
    await pair.namesrv.start()
    await pair.slave.start()
    assert pair.slave.cluster.master.address == ""
    await pair.master.start()
    await pair.clock.run_for(1500)
    assert pair.slave.cluster.master.address == f"{MASTER}:10911"
    await pair.stop()
