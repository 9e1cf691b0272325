"""`kill -9` of a real broker at random moments under load: nothing acknowledged is lost, nothing is invented."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from rocketlake.store.audit import audit_store
from rocketlake.store.reader import StoreReader
from tests.crash.broker_process import BrokerProcess, Ledger, Reader, kill_under_load
from tests.seeds import drawn

# 40 kills in all; the foundation's issue asks for 100, which the suite has no time for: `make kills KILLS=100`.
KILLS = int(os.environ.get("ROCKETLAKE_KILLS", "24")) // 2


@pytest.mark.crash
@pytest.mark.parametrize(
    ("flush", "kills"),
    [pytest.param("SYNC_FLUSH", 4, marks=pytest.mark.smoke), ("SYNC_FLUSH", KILLS), ("ASYNC_FLUSH", KILLS)],
)
async def test_no_acknowledged_message_is_lost_when_the_broker_is_killed(
    flush: str, kills: int, tmp_path: Path
) -> None:
    (seed,) = drawn("kills", 1)
    moments = random.Random(f"{seed}{flush}")
    broker = BrokerProcess(tmp_path, flushDiskType=flush)
    ledger = Ledger()
    reader = Reader(broker.address, ledger)
    for number in range(kills):
        broker.start()
        await reader.read_new()
        assert reader.lost() == [], f"after kill {number} (seed {seed})"
        await kill_under_load(broker, ledger, moments.uniform(0.01, 0.4), f"k{number}")
    broker.start()
    await reader.read_new()
    assert broker.stop() == 0
    assert reader.lost() == []
    assert len(ledger.acked) > kills, "the load must really have run"
    assert audit_store(broker.store, index_slots=1000, index_entries=4000) == []


@pytest.mark.crash
async def test_with_the_write_pool_a_kill_costs_the_newest_messages_only(tmp_path: Path) -> None:
    """What is lost was acknowledged last and lay in a buffer: nothing before it is, nothing is half or there twice."""
    moments = random.Random(*drawn("kills with the write pool", 1))
    pool = {"transientStorePoolEnable": "true", "transientStorePoolSize": 2, "mappedFileSizeCommitLog": 1 << 19}
    broker = BrokerProcess(tmp_path, **pool)
    kept: list[Ledger] = []
    for number in range(6):
        ledger = Ledger()
        broker.start()
        await kill_under_load(broker, ledger, moments.uniform(0.3, 0.8), f"k{number}")
        kept.append(ledger)
        log_end = StoreReader(broker.store).log_end()
        lost = {name for name, offset in ledger.acked_physical.items() if offset >= log_end.physical_offset}
        for name in lost:
            del ledger.acked[name]
        assert ledger.acked, "only what was acknowledged last is lost"
    broker.start()
    assert "those of the last 400 ms are lost" in (tmp_path / "broker.log").read_text()
    everything = Ledger()
    for ledger in kept:
        everything.tried |= ledger.tried
        everything.acked.update(ledger.acked)
    reader = Reader(broker.address, everything)
    await reader.read_new()
    assert reader.lost() == []
    assert broker.stop() == 0
    assert audit_store(broker.store, index_slots=1000, index_entries=4000) == []
